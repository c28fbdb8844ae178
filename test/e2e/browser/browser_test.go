//go:build e2e

// Package browser drives the page in a real browser, as people do: from an alert to its
// end, by mouse and by keyboard, on a phone and on a desk, in the light and in the dark.
package browser

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var (
	// pictures are for looking at.
	pictures = flag.String("pictures", "", "directory to write a picture of each page to")
	// docs are those of the documentation.
	docs    = flag.String("docs", "", "directory to write the pictures of the documentation to: docs/images")
	program string

	//go:embed checks.js
	checks string
)

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "responder-browser-")
	if err == nil {
		program = filepath.Join(dir, "responder")
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, "../../../cmd/responder")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
	}
	os.Exit(code)
}

// service is a responder that is served.
type service struct{ url, dir string }

// start starts responder serve and waits until it is ready.
func start(t *testing.T, args ...string) service {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, dir := l.Addr().String(), t.TempDir()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(program, append([]string{"serve", "--listen", address}, args...)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(os.Interrupt), <-ended); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the service wrote:\n%s", out.String())
		}
	})
	s := service{"http://" + address, dir}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if r, err := http.Get(s.url + "/readyz"); err == nil {
			if err := r.Body.Close(); err == nil && r.StatusCode == http.StatusOK {
				return s
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the service is not ready after a minute")
		}
	}
}

// fire delivers the notification of the sandbox's incident, as Alertmanager does.
func (s service) fire(t *testing.T) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(s.dir, "notification.json"))
	if err != nil {
		t.Fatal(err)
	}
	s.notify(t, string(body))
}

// notify delivers a notification.
func (s service) notify(t *testing.T, body string) {
	t.Helper()
	r, err := http.Post(s.url+"/api/v1/alertmanager", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("the notification was answered %s, %v", r.Status, err)
	}
}

// TestFromAlertToResolved: somebody on call sees the alert arrive, denies without a
// reason, which is refused, approves, and sees the proof.
func TestFromAlertToResolved(t *testing.T) {
	s := start(t, "--sandbox", "bad-rollout", "--dir", ".", "--pace", "60")
	b := open(t, s)
	b.do(chromedp.EmulateViewport(390, 844), chromedp.Navigate(s.url))
	b.awaitText("main", "No run is at work")
	b.look("now-quiet")

	s.fire(t)
	b.await("li.asked a.go") // without a reload by hand
	b.look("now-asked")
	b.illustrate("now", 1280, 800, "light")
	b.do(chromedp.EmulateViewport(390, 844), chromedp.Click(chromedp.CSS("li.asked a.go")))
	b.await("button.yes")
	if top := ask[float64](b, `document.querySelector("button.yes").getBoundingClientRect().top`); top < 0 || top > 844 {
		b.Errorf("the link leads to a page whose Approve is %v pixels down", top)
	}
	b.look("run-asked")
	b.barStays()
	b.anotherQuestion()
	b.await("svg.chart")
	b.illustrate("run", 1280, 1200, "light")
	b.illustrate("run-phone", 390, 844, "dark")

	b.do(chromedp.Click(chromedp.CSS("button.no")))
	b.awaitText("p", "a denial needs a reason")
	b.look("run-refused")
	b.await("button.yes") // it is still asked
	b.do(chromedp.Click(chromedp.CSS("button.yes")))
	b.await("h1 .pill.busy")
	b.look("run-working")
	b.do(chromedp.WaitNotPresent(chromedp.CSS("button.yes")))
	b.awaitText("h1", "resolved")
	b.look("run-resolved")
	for _, text := range []string{"verified", "user:anonymous"} {
		if !strings.Contains(ask[string](b, "document.body.textContent"), text) {
			b.Errorf("the page of the run does not say %q", text)
		}
	}
	b.do(chromedp.Navigate(s.url))
	b.awaitText("main", "No question is open")
}

// TestPages: each page of the menu is whole, in each width and scheme, small and quick.
func TestPages(t *testing.T) {
	s := start(t, "--sandbox", "bad-rollout", "--dir", ".", "--pace", "60")
	s.fire(t)
	b := open(t, s)
	b.do(chromedp.Navigate(s.url))
	b.await("li.asked a.go")
	b.header()
	pages := ask[[]string](b, `[...document.querySelectorAll("nav a")].map((a) => a.href)`)
	b.do(chromedp.Navigate(s.url + "/services?service=serving/inference-chat"))
	b.awaitText("main", "Can Responder act here?")
	b.illustrate("service", 1280, 1000, "light")
	for _, link := range append(pages, s.url+"/services?service=serving/inference-chat", s.url+"/playbooks?playbook=inference-slo-breach") {
		b.do(chromedp.Navigate(link))
		b.await("h1")
		b.look("page-" + strings.NewReplacer("?", "-", "=", "-", "/", "-").Replace(strings.TrimPrefix(link, s.url+"/")))
		if size := ask[float64](b, `performance.getEntriesByType("navigation")[0].decodedBodySize`); size > 150_000 {
			b.Errorf("%s has %.0f bytes", link, size)
		}
	}
}

// TestAlertWithoutARun: who looks for an alert that did nothing finds why, and what to do.
func TestAlertWithoutARun(t *testing.T) {
	s := start(t, "--sandbox", "bad-rollout", "--dir", ".", "--pace", "60")
	s.fire(t)
	s.notify(t, `{"version": "4", "groupKey": "{}:{}", "status": "firing", "receiver": "responder", "alerts": [{"status": "firing",
		"labels": {"alertname": "InferenceTTFTFastBurn", "namespace": "elsewhere", "service": "nobody", "severity": "page"},
		"startsAt": "2026-11-30T21:40:00Z", "generatorURL": "https://prometheus.example/graph", "fingerprint": "8c1f03d211112222"}]}`)
	b := open(t, s)
	b.do(chromedp.EmulateViewport(390, 844), chromedp.Navigate(s.url+"/alerts"))
	b.awaitText("main", "2 alerts")
	b.do(chromedp.Click(chromedp.CSS("#search summary")), chromedp.SetValue(chromedp.CSS("[name=became]"), "no service"), chromedp.Click(chromedp.CSS("#search button")))
	b.awaitText("main", "1 alert,")
	b.look("alerts-found")
	b.do(chromedp.Click(chromedp.CSS("li a.run")))
	b.awaitText("main", "What to do")
	b.awaitText("main", "no service of the catalog is in namespace")
	b.look("alert")
	b.illustrate("alert", 1280, 880, "light")
	b.do(chromedp.Click(chromedp.CSS(`a[href$="text=elsewhere"]`)))
	b.awaitText("main", "1 alert,")
}

// TestKeyboard: a question is decided without a mouse, and where the keyboard is shows.
func TestKeyboard(t *testing.T) {
	s := start(t, "--sandbox", "bad-rollout", "--dir", ".", "--pace", "60")
	s.fire(t)
	b := open(t, s)
	b.do(chromedp.EmulateViewport(1280, 844), chromedp.Navigate(s.url))
	b.await("li.asked a.go")
	b.tabTo("a.go")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("button.yes")
	b.tabTo("textarea")
	b.do(chromedp.KeyEvent("seen on the dashboard"))
	b.tabTo("button.yes")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("h1 .pill.busy")
	b.awaitText("*", "seen on the dashboard")
	b.quiet("keyboard")
}

// TestDenyByKeyboard: the first Tab leads to the question, and it is denied there.
func TestDenyByKeyboard(t *testing.T) {
	s := start(t, "--sandbox", "bad-rollout", "--dir", ".", "--pace", "60")
	s.fire(t)
	b := open(t, s)
	b.do(chromedp.EmulateViewport(390, 844), chromedp.Navigate(s.url))
	b.await("li.asked a.go")
	b.do(chromedp.Navigate(ask[string](b, `document.querySelector("li.asked a.run").href`)))
	b.await("#bar summary")
	b.tabTo(`a[href="#bar"]`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.tabTo("#bar summary")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.tabTo("#bar-why")
	b.do(chromedp.KeyEvent("a colleague is at it"))
	b.screen("run-bar-deny")
	b.tabTo("#bar button.no")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.awaitText("h1", "escalated")
	b.awaitText("*", "denied: a colleague is at it")
	b.quiet("deny by keyboard")
}

// TestLocalTime: whoever is not in UTC reads their own time, and UTC when the pointer rests
// on it. The page says which.
func TestLocalTime(t *testing.T) {
	s := start(t, "--sandbox", "bad-rollout", "--dir", ".", "--pace", "60")
	s.fire(t)
	b := open(t, s)
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kabul"})
		return err
	}), chromedp.Navigate(s.url))
	b.await("li.asked a.go")
	b.do(chromedp.Navigate(ask[string](b, `document.querySelector("li.asked a.run").href`)))
	b.await("#bar time.minute")
	kabul := time.FixedZone("", 4*3600+1800)
	all := ask[[][]string](b, `[...document.querySelectorAll("time")].map((t) => [t.dateTime, t.textContent, t.title, t.className])`)
	for _, at := range all {
		utc, err := time.Parse(time.RFC3339, at[0])
		layout := "2006-01-02 15:04:05"
		if at[3] == "minute" {
			layout = "15:04"
		}
		if want := utc.In(kabul).Format(layout); err != nil || at[1] != want || at[2] != utc.Format("2006-01-02 15:04:05 UTC") {
			t.Errorf("%s is shown as %q with %q, want %q", at[0], at[1], at[2], want)
		}
	}
	if len(all) < 10 {
		t.Errorf("the page of a run has %d times", len(all))
	}
	if zone := ask[string](b, `document.getElementById("zone").textContent`); !strings.Contains(zone, "Asia/Kabul") {
		t.Errorf("the page says %q", zone)
	}
	b.screen("run-kabul")
	b.quiet("local time")
}

// TestSignIn: a stranger gets the sign-in page, a wrong password is told, the right one
// leads to the page that was asked for, and signing out ends it.
func TestSignIn(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"password":       "correct horse battery staple\n",
		"responder.yaml": "journal: {dir: " + dir + "/journal}\nauth:\n  basic: [{name: ada, password_file: " + dir + "/password, scopes: [read]}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, "--config", filepath.Join(dir, "responder.yaml"))
	b := open(t, s)
	b.do(chromedp.Navigate(s.url + "/history"))
	b.await("input[type=password]")
	b.look("signin")
	enter := func(password string) {
		b.do(chromedp.SendKeys(chromedp.CSS("input[name=name]"), "ada"), chromedp.SendKeys(chromedp.CSS("input[type=password]"), password+kb.Enter))
	}
	enter("wrong")
	b.await("[role=alert]")
	b.look("signin-refused")
	enter("correct horse battery staple")
	b.awaitText("h1", "History")
	b.look("history-empty")
	b.do(chromedp.Click(chromedp.Search(`//button[contains(., "Sign out")]`)))
	b.await("input[type=password]")
	b.do(chromedp.Navigate(s.url + "/history"))
	b.await("input[type=password]")
	b.quiet("signed out")
}
