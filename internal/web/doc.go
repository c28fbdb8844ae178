// Package web is the page: what waits now, runs, services, playbooks, the log and the
// rules, as HTML for a browser on a phone at three in the morning.
//
// It is a projection like the CLI. What a run has come to is its
// [machine.State]; the words for an event, a status or a path are those of
// package runview, as on a terminal. The package keeps nothing, changes nothing
// and decides nothing: the forms on a page are
// taken by the receiver, which authenticates, refuses the pages of other
// sites, and hands the decision to the run.
//
// Everything shown is data from outside: it is escaped as text or attribute by
// the library that renders it, cut where it is long, linked only when it is an
// http or https address, and counted: no page reads more than a bounded number
// of runs, events or entries. Addresses of our own are put together from fixed
// words and escaped segments. Pages are made in Go, not by html/template: that
// looks methods up by name, for which the linker would keep every exported
// method of the whole program, 36 MB of it.
//
// Pictures are SVG within the page. Sizes and places are presentation attributes, because
// the policy forbids inline styles; colours are classes of the style sheet, dark and light.
// Each picture has a label in words, and what it shows is also in the text around it. The
// burn rate is the only thing that is asked of another system: a page without it is shown
// with the reason.
//
// Pages work without scripts; with them, times are local, and a page that is behind loads
// itself again unless somebody is writing on it. Style and script are part of
// the page and named by their hashes in its Content-Security-Policy, so that
// nothing else can run, load or be framed.
package web
