package resolver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	echov4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"

	"github.com/trafficguard-go/trafficguard/resolver"
)

// What the binders of the frameworks fill. Gin takes the name of a field that has no form tag.
type (
	tagged struct {
		UserID string `json:"userId" form:"userId" query:"userId"`
	}
	untagged struct {
		UserID string `json:"userId"`
	}
)

// bind has the frameworks' binders.
var bind = map[string]func(r *http.Request, into any) error{
	"Gin": func(r *http.Request, into any) error {
		c, _ := gin.CreateTestContext(httptest.NewRecorder())
		c.Request = r
		return c.ShouldBind(into)
	},
	"Echo v4": func(r *http.Request, into any) error {
		return echov4.New().NewContext(r, httptest.NewRecorder()).Bind(into)
	},
	"Echo v5": func(r *http.Request, into any) error {
		return echo.New().NewContext(r, httptest.NewRecorder()).Bind(into)
	},
}

// A handler that binds reads the identity that counts, or nothing, or fails: whatever the method, the content type,
// the query string and the body are.
func TestBindersReadWhatCounts(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.ReleaseMode)
	const boundary = "multipart/form-data; boundary=b"
	const part = "--b\r\nContent-Disposition: form-data; name=\"userId\"\r\n\r\neve\r\n--b--\r\n"
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "post"}
	contentTypes := []string{
		"", "application/json", "Application/JSON", " application/json", "application/json\t", "application/json\t;charset=utf-8",
		"application/json ;charset=UTF-8", "application/json;", "application/json,text/plain", "application/vnd.api+json",
		"text/json", "text/plain", formType, "Application/X-WWW-Form-Urlencoded", boundary, "application/xml", "application/yaml",
	}
	queries := []string{"", "page=1", "userId=eve", "UserID=eve", "us%65rId=eve", "userİd=eve", "u%C5%BFerId=eve", "userId", "a=%zz&userId=eve", "a;b&userId=eve"}
	bodies := []string{
		"", " ", `{}`, `{"userId":"ann"}`, `{"userId":null}`, `{"userId":"ann","userid":"eve"}`, `{"userId":"ann","userİd":"eve"}`,
		"userId=ann", "userId=ann&UserID=eve", "userId=ann&us%C4%B1rId=eve&u%C5%BFerId=eve", part, "userId: eve",
	}
	for source, r := range map[string]resolver.Func{"BodyField": resolver.BodyField("userId"), "FormField": resolver.FormField("userId")} {
		for binder, bind := range bind {
			t.Run(source+" "+binder, func(t *testing.T) {
				t.Parallel()
				identified := 0
				for _, into := range []func() (target any, id *string){
					func() (any, *string) { v := new(tagged); return v, &v.UserID },
					func() (any, *string) { v := new(untagged); return v, &v.UserID },
				} {
					for _, m := range methods {
						for _, contentType := range contentTypes {
							for _, raw := range queries {
								for _, body := range bodies {
									x := post("", body).method(m).query(raw)
									if contentType != "" {
										x.with("Content-Type", contentType)
									}
									s, err := r(x)
									if err != nil {
										continue
									}
									target, id := into()
									if bind(x.req, target) != nil || *id == "" {
										continue
									}
									if identified++; *id != s.Value {
										t.Errorf("%s ?%s, Content-Type %q, body %q: the resolver finds %q, %T is bound to %q",
											m, raw, contentType, body, s.Value, target, *id)
									}
								}
							}
						}
					}
				}
				if identified < 6 {
					t.Errorf("only %d requests bind: the test tests little", identified)
				}
			})
		}
	}
}

// A parameter that counts means the same to a handler that decodes it once more, and what another part of the path
// looks like makes no difference.
func TestRoutersAgreeOnPathParams(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.ReleaseMode)
	who := resolver.PathParam("id")
	reply := func(r *http.Request, id string) string {
		got := answer(who, &exchange{req: r, params: map[string]string{"id": id}})
		again, err := url.PathUnescape(id)
		if got != "400" && (got != "path:id="+id || err == nil && again != id) {
			return fmt.Sprintf("%s, the parameter is %q", got, id)
		}
		return got
	}
	routers := map[string]http.Handler{}
	for _, raw := range []bool{false, true} {
		g := gin.New()
		g.UseRawPath = raw
		g.GET("/users/:id/*rest", func(c *gin.Context) { c.String(200, "%s", reply(c.Request, c.Param("id"))) })
		routers[fmt.Sprintf("Gin, UseRawPath %v", raw)] = g
		e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{UnescapePathParamValues: raw})})
		e.GET("/users/:id/*", func(c *echo.Context) error { return c.String(200, reply(c.Request(), c.Param("id"))) })
		routers[fmt.Sprintf("Echo v5, UnescapePathParamValues %v", raw)] = e
	}
	f := echov4.New()
	f.GET("/users/:id/*", func(c echov4.Context) error { return c.String(200, reply(c.Request(), c.Param("id"))) })
	routers["Echo v4"] = f
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}/{rest...}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, reply(r, r.PathValue("id")))
	})
	routers["net/http"] = mux
	undecoded := map[string]bool{"Echo v4": true, "Echo v5, UnescapePathParamValues false": true}
	for name, router := range routers {
		for _, c := range []struct{ id, want, undecoded string }{
			{"1", "path:id=1", "path:id=1"},
			{"%31", "path:id=1", "400"},
			{"%2531", "400", "400"},
			{"a%40b.c", "path:id=a@b.c", "400"},
			{"a@b.c", "path:id=a@b.c", "path:id=a@b.c"},
			{"%252531", "400", "400"},
		} {
			want := c.want
			if undecoded[name] {
				want = c.undecoded
			}
			for _, rest := range []string{"x", "%31", "%2531"} {
				w := httptest.NewRecorder()
				router.ServeHTTP(w, httptest.NewRequest("GET", "/users/"+c.id+"/"+rest, strings.NewReader("")))
				if got := w.Body.String(); got != want {
					t.Errorf("%s, /users/%s/%s: got %s, want %s", name, c.id, rest, got, want)
				}
			}
		}
	}
}
