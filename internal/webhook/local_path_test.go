package webhook

import (
	"net/url"
	"strings"
	"testing"
)

func TestLocalPath(t *testing.T) {
	for raw, want := range map[string]string{
		"/":                                "/",
		"/runs/r-1":                        "/runs/r-1",
		"/?service=serving%2Fchat&outcome": "/?service=serving%2Fchat&outcome",
		"/audit?before=50":                 "/audit?before=50",
		"/runs/a%20b":                      "", // no page has such a name
		"":                                 "",
		"runs":                             "",
		"//evil.example":                   "",
		"///evil.example":                  "",
		`/\evil.example`:                   "",
		`\\evil.example`:                   "",
		"/%5Cevil.example":                 "",
		"/%2F/evil.example":                "",
		"/%2f%2fevil.example":              "",
		"https://evil.example/":            "",
		"javascript:alert(1)":              "",
		"/runs/../../evil":                 "",
		"/runs/%2e%2e/x":                   "",
		"/./x":                             "",
		"/runs//x":                         "",
		"/\t/evil.example":                 "",
		"/\n/evil.example":                 "",
		"/ /evil.example":                  "",
		"/x#//evil.example":                "",
		"/x%zz":                            "",
		"/é":                               "",
		"/signin":                          "",
		"/signin/callback?code=x":          "",
		"/signout":                         "",
		"/javascript:x":                    "",
		"/a%3Ab/c":                         "",
		"/runs/a:b":                        "/runs/a:b",
		"/api/v1/runs":                     "",
		"/" + strings.Repeat("x", maxPath): "",
	} {
		got, ok := localPath(raw)
		if got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v, want %q", raw, got, ok, want)
		}
	}
}

// Whatever the path, the browser stays below the service's address, also behind a
// proxy that adds a prefix.
func FuzzLocalPath(f *testing.F) {
	for _, s := range []string{"/", "/runs/r-1?said=x", "//e", `/\e`, "/%2e%2e/x", "/a/..//e", "/?next=//e", "/;//e", "/%00", "/@e", "/:80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		p, ok := localPath(raw)
		if !ok {
			return
		}
		if again, ok := localPath(p); !ok || again != p {
			t.Errorf("%q: %q becomes %q", raw, p, again)
		}
		for _, page := range []string{"https://h.example/prefix/signin", "https://h.example/prefix/signin/callback"} {
			base, err := url.Parse(page)
			if err != nil {
				t.Fatal(err)
			}
			to := strings.Repeat("../", strings.Count(base.Path, "/")-2) + "./" + p[1:]
			u, err := base.Parse(to)
			if err != nil || u.Host != "h.example" || u.Scheme != "https" || !strings.HasPrefix(u.Path, "/prefix/") || strings.ContainsAny(p, "\\\r\n\t ") {
				t.Errorf("%q: %s leads from %s to %v: %v", raw, to, page, u, err)
			}
		}
	})
}
