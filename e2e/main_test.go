package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/policies"
	"github.com/trafficguard-go/trafficguard/store/redisstore"
)

// redis is the server that the tests of this package share. A test that harms its server starts one of its own.
var redis *redistest.Server

// The test binary starts itself again as a server process where these are set.
const (
	envFramework = "TRAFFICGUARD_E2E_FRAMEWORK"
	envRedis     = "TRAFFICGUARD_E2E_REDIS"
	envNamespace = "TRAFFICGUARD_E2E_NAMESPACE"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	if framework := os.Getenv(envFramework); framework != "" {
		serveProcess(framework, os.Getenv(envRedis))
		return
	}
	server, stop, err := redistest.StartShared()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	redis = server
	code := m.Run()
	stop()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// serveProcess is one instance of an app: it serves 100 requests an hour for each user, counted in Redis, until its
// standard input ends.
func serveProcess(framework, url string) {
	s, err := redisstore.Open(url, os.Getenv(envNamespace), unhurried)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	p := policies.UserRateLimit(limit.PerHour(100), user, policies.InStore(s), policies.Named("hourly"), policies.FailClosed())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // the parent holds the other end, and is gone when this returns
		os.Exit(0)
	}()
	fmt.Println("http://" + l.Addr().String())
	_ = http.Serve(l, frameworks[framework](patient(nil), "GET", "/x", ok, p))
}
