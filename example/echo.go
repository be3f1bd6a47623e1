package main

import (
	"io"
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/trafficguard-go/trafficguard/echov5adapter"
	"github.com/trafficguard-go/trafficguard/guard"
)

func newEcho(tg *guard.TrafficGuard, p guards) http.Handler {
	e := echo.New()
	e.Use(middleware.Recover())

	guard := echov5adapter.New(tg)
	e.GET("/healthz", echoDone)
	e.GET("/posts/:id", echoPost, guard.With(p.posts))
	e.POST("/orders", echoDone, guard.With(p.orders))
	e.POST("/payments", echoDone, guard.With(p.payments))
	e.GET("/items", echoDone, guard.With(p.items))
	e.POST("/reports/export", echoDone, guard.With(p.reports))
	e.POST("/echo", echoEcho, guard.With(p.echo))
	return e
}

func echoDone(c *echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

func echoPost(c *echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"post": c.Param("id")})
}

func echoEcho(c *echo.Context) error {
	body, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return echo.ErrBadRequest
	}
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, body)
}
