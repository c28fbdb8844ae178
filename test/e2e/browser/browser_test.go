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
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var (
	// pictures are for the documentation, and for looking at.
	pictures = flag.String("pictures", "", "directory to write a picture of each page to")
	program  string

	//go:embed checks.js
	checks string
)

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "responder-browser-")
	if err == nil {
		program = filepath.Join(dir, "responder")
		build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../../../cmd/responder")
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
	r, err := http.Post(s.url+"/api/v1/alertmanager", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("the notification was answered %s, %v", r.Status, err)
	}
}

// tab is a browser with one page.
type tab struct {
	*testing.T

	service service
	ctx     context.Context
	faults  chan string // what the browser complains about
}

// open starts a browser.
func open(t *testing.T, s service) tab {
	t.Helper()
	options := chromedp.DefaultExecAllocatorOptions[:]
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's own refuses root
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := tab{t, s, ctx, make(chan string, 100)}
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as the context that starts it
		t.Fatal(err)
	}
	complain := func(format string, args ...any) {
		select {
		case b.faults <- fmt.Sprintf(format, args...):
		default: // there are enough
		}
	}
	if err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *network.EventRequestWillBeSent:
			if u := ev.Request.URL; !strings.HasPrefix(u, s.url) && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "about:") {
				complain("a request to %s", u)
			}
		case *log.EventEntryAdded:
			if ev.Entry.Level == log.EntryLevelError && !strings.Contains(ev.Entry.Text, "status of 4") { // a refusal is an answer
				complain("%s: %s", ev.Entry.Source, ev.Entry.Text)
			}
		case *runtime.EventExceptionThrown:
			complain("exception: %s", ev.ExceptionDetails.Text)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

// do takes steps, within a minute.
func (b tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		where, _ := chromedp.Run(b.ctx, chromedp.Location())
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		b.Fatalf("%v\n%s\n%s", err, where, text)
	}
}

// await waits until a selector finds something that is seen.
func (b tab) await(selector string) {
	b.Helper()
	b.do(chromedp.WaitVisible(chromedp.CSS(selector)))
}

// awaitText waits until an element that is seen has a text. The page loads itself again.
func (b tab) awaitText(selector, text string) {
	b.Helper()
	b.do(chromedp.WaitVisible(chromedp.Search(fmt.Sprintf("//%s[contains(., %q)]", selector, text))))
}

// ask evaluates an expression in the page.
func ask[T any](b tab, expression string) T {
	b.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// look checks the page as it is now: in both widths, light and dark.
func (b tab) look(name string) {
	b.Helper()
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			b.do(chromedp.EmulateViewport(width, 844), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
				_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
				return err
			}))
			for _, fault := range ask[[]string](b, checks) {
				b.Errorf("%s, %d pixels, %s: %s", name, width, scheme, fault)
			}
			b.picture(fmt.Sprintf("%s-%d-%s", name, width, scheme))
		}
	}
	b.quiet(name)
}

// quiet fails when the browser had something to complain about.
func (b tab) quiet(name string) {
	b.Helper()
	for {
		select {
		case fault := <-b.faults:
			b.Errorf("%s: %s", name, fault)
		default:
			return
		}
	}
}

func (b tab) picture(name string) {
	b.Helper()
	if *pictures == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(*pictures, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.Error(err)
	}
}

// screen writes what is in view.
func (b tab) screen(name string) {
	b.Helper()
	if *pictures == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(*pictures, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.Error(err)
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
	b.do(chromedp.EmulateViewport(390, 844), chromedp.Click(chromedp.CSS("li.asked a.go")))
	b.await("button.yes")
	if top := ask[float64](b, `document.querySelector("button.yes").getBoundingClientRect().top`); top < 0 || top > 844 {
		b.Errorf("the link leads to a page whose Approve is %v pixels down", top)
	}
	b.look("run-asked")
	b.barStays()

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

// barStays checks that the question and its answers are in view wherever one reads, and
// leave room for reading.
func (b tab) barStays() {
	b.Helper()
	for _, width := range []int64{1280, 390} {
		b.do(chromedp.EmulateViewport(width, 844))
		for _, to := range []string{"0", "document.body.scrollHeight / 2", "document.body.scrollHeight"} {
			if fault := ask[string](b, `(() => {
				scrollTo(0, `+to+`);
				const bar = document.getElementById("bar").getBoundingClientRect();
				if (bar.height > innerHeight * 0.3) return "the bar is " + bar.height + " pixels high";
				for (const e of document.querySelectorAll("#bar .asks a, #bar .yes, #bar summary")) {
					const r = e.getBoundingClientRect(), at = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
					if (!at || !e.contains(at) && !at.contains(e)) return e.textContent + " is out of view";
				}
				return "";
			})()`); fault != "" {
				b.Errorf("%d pixels wide, scrolled to %s: %s", width, to, fault)
			}
			b.screen(fmt.Sprintf("run-bar-%d-%.1s", width, to))
		}
	}
}

// TestPages: each page of the menu is whole, in each width and scheme, small and quick.
func TestPages(t *testing.T) {
	s := start(t, "--sandbox", "bad-rollout", "--dir", ".", "--pace", "60")
	s.fire(t)
	b := open(t, s)
	b.do(chromedp.Navigate(s.url))
	b.await("li.asked a.go")
	for _, link := range ask[[]string](b, `[...document.querySelectorAll("nav a")].map((a) => a.href)`) {
		b.do(chromedp.Navigate(link))
		b.await("h1")
		name := strings.Trim(strings.TrimPrefix(link, s.url), "/")
		b.look("page-" + name)
		if size := ask[float64](b, `performance.getEntriesByType("navigation")[0].decodedBodySize`); size > 150_000 {
			b.Errorf("%s has %.0f bytes", link, size)
		}
	}
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

// tabTo presses Tab until an element has the focus. Each on the way must show that it has,
// and not be behind the bar.
func (b tab) tabTo(selector string) {
	b.Helper()
	const focused = `(() => {
		const e = document.activeElement, s = getComputedStyle(e);
		const bar = document.getElementById("bar"), hidden = bar && !bar.contains(e) && e.getBoundingClientRect().top > bar.getBoundingClientRect().top;
		return [e.matches(%q), e === document.body || s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0, e.outerHTML.slice(0, 80), hidden];
	})()`
	for range 200 {
		b.do(chromedp.KeyEvent(kb.Tab))
		at := ask[[]any](b, fmt.Sprintf(focused, selector))
		if at[1] != true {
			b.Errorf("the focus does not show on %v", at[2])
		}
		if at[3] == true {
			b.Errorf("the bar hides the focus on %v", at[2])
		}
		if at[0] == true {
			return
		}
	}
	b.Fatalf("Tab does not reach %s", selector)
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
