package main

import (
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/trafficguard-go/trafficguard/ginadapter"
	"github.com/trafficguard-go/trafficguard/guard"
)

func newGin(tg *guard.TrafficGuard, p guards) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.Recovery())

	guard := ginadapter.New(tg)
	r.GET("/healthz", ginDone)
	r.GET("/posts/:id", guard.With(p.posts), ginPost)
	r.POST("/orders", guard.With(p.orders), ginDone)
	r.POST("/payments", guard.With(p.payments), ginDone)
	r.GET("/items", guard.With(p.items), ginDone)
	r.POST("/reports/export", guard.With(p.reports), ginDone)
	r.POST("/echo", guard.With(p.echo), ginEcho)
	return r
}

func ginDone(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) }

func ginPost(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"post": c.Param("id")}) }

func ginEcho(c *gin.Context) {
	body, err := io.ReadAll(c.Request.Body)
	if err != nil {
		c.AbortWithStatus(http.StatusBadRequest)
		return
	}
	c.Data(http.StatusOK, gin.MIMEJSON, body)
}
