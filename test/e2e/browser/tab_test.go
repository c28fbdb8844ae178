//go:build e2e

package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
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
			b.resize(width, 844, scheme)
			for _, fault := range ask[[]string](b, checks) {
				b.Errorf("%s, %d pixels, %s: %s", name, width, scheme, fault)
			}
			b.picture(fmt.Sprintf("%s-%d-%s", name, width, scheme))
		}
	}
	b.quiet(name)
}

// resize sets the size of the window, and light or dark.
func (b tab) resize(width, height int64, scheme string) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// illustrate writes a picture of what is in view for the documentation.
func (b tab) illustrate(name string, width, height int64, scheme string) {
	b.Helper()
	if *docs == "" {
		return
	}
	b.resize(width, height, scheme)
	ask[bool](b, "(scrollTo(0, 0), true)")
	b.write(filepath.Join(*docs, name+".png"), chromedp.CaptureScreenshot())
}

// write takes a picture. The browser may never answer when the page loads itself again
// meanwhile; then another is taken.
func (b tab) write(file string, picture chromedp.Action[[]byte]) {
	b.Helper()
	var data []byte
	err := context.DeadlineExceeded
	for tries := 0; tries < 3 && errors.Is(err, context.DeadlineExceeded); tries++ {
		ctx, cancel := context.WithTimeout(b.ctx, 15*time.Second)
		data, err = chromedp.Run(ctx, picture)
		cancel()
	}
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		b.Error(err)
	}
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
	if *pictures != "" {
		b.write(filepath.Join(*pictures, name+".png"), chromedp.FullScreenshot(100))
	}
}

// screen writes what is in view.
func (b tab) screen(name string) {
	b.Helper()
	if *pictures != "" {
		b.write(filepath.Join(*pictures, name+".png"), chromedp.CaptureScreenshot())
	}
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
				const asks = document.querySelector("#bar .asks");
				if (asks.scrollHeight > asks.clientHeight + 1) return "the question is cut off";
				const said = document.querySelector("#bar .follow")?.textContent || "";
				if (!["verified", "no effect", "worse"].every((verdict) => said.includes(verdict))) return "the bar does not say what each verdict leads to: " + said;
				for (const e of document.querySelectorAll("#bar .asks a, #bar .follow, #bar .yes, #bar summary")) {
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

// header checks that the top of a page is one row, and that the other pages are one press away
// where there is no room for their names.
func (b tab) header() {
	b.Helper()
	const seen = `[...document.querySelectorAll("nav a")].filter((a) => a.checkVisibility()).length`
	pages := ask[int](b, `document.querySelectorAll("nav a").length`)
	for _, width := range []int64{320, 390, 768, 1280} {
		b.do(chromedp.EmulateViewport(width, 844))
		if height := ask[float64](b, `document.querySelector("header").getBoundingClientRect().height`); height > 60 {
			b.Errorf("%d pixels wide, the top of the page is %v pixels high", width, height)
		}
		menu, shown := ask[bool](b, `document.querySelector(".menu").checkVisibility()`), ask[int](b, seen)
		if menu != (width < 1000) || menu && shown > 0 || !menu && shown != pages {
			b.Errorf("%d pixels wide, a menu: %v, and %d of %d pages", width, menu, shown, pages)
		}
	}
	b.do(chromedp.EmulateViewport(390, 844))
	b.tabTo(".menu")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("nav a")
	b.screen("menu")
	for _, fault := range ask[[]string](b, checks) {
		b.Errorf("with the menu open: %s", fault)
	}
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.WaitNotVisible(chromedp.CSS("nav a")))
}

// anotherQuestion checks that a click that was meant for a question does not answer the one
// that has come in its place.
func (b tab) anotherQuestion() {
	b.Helper()
	ask[string](b, `(() => { sessionStorage.setItem("read " + location.pathname, "the one before"); location.reload(); return ""; })()`)
	b.await("#bar.another .there:last-child")
	if ask[bool](b, `[...document.querySelectorAll("#bar .yes, #bar summary")].some((e) => e.checkVisibility())`) {
		b.Error("a question that nobody has read can be answered in the bar")
	}
	b.screen("run-bar-another")
	b.do(chromedp.Click(chromedp.CSS("#bar .there:last-child")))
	b.await("#bar:not(.another) .yes")
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
