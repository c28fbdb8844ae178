package web

import (
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/runview"
)

func auditView(p page, d *auditData) g.Node {
	return g.Group{
		h.H1(g.Text("Audit log")),
		h.P(g.Textf("%d entries, newest first. To check a copy offline, run ", d.Size), code(runview.VerifyCommand), g.Text(".")),
		auditSearchView(p, d),
		some(d.Unreadable, notice(toneBad, h.Role("alert"), h.B(g.Text("Part of the log cannot be read.")),
			g.Text(" The service's log shows why; "), code(runview.VerifyCommand), g.Text(" checks the file."))),
		some(len(d.Entries) > 0, wide("wide", "Entries", h.Table(h.Class("log"),
			h.THead(h.Tr(g.Map([]string{"Entry", "Time (UTC)", "Stream", "Kind", "What"}, func(s string) g.Node { return h.Th(g.Text(s)) }))),
			h.TBody(g.Map(d.Entries, func(e Entry) g.Node { return entryView(p, e) })),
		))),
		some(d.Wrong == "", lookedView(d)),
		h.P(h.Class("buttons"),
			some(d.Newest != "", h.A(h.Href(d.Newest), g.Text("Newest"))),
			some(d.Newer != "", h.A(h.Href(d.Newer), g.Text("Newer"))),
			some(d.Older != "", h.A(h.Href(d.Older), g.Text("Older"))),
		),
		verifyView(p, d.Verifying),
		some(d.Checkpoint != "",
			h.H2(g.Text("Newest signed checkpoint")),
			quiet(g.Text("Keep it: a copy of the log that does not extend it was tampered with.")),
			h.Pre(h.TabIndex("0"), g.Text(d.Checkpoint)),
		),
	}
}

// verifyView renders what verifying the log found, and the form that has it verified.
func verifyView(p page, x verifyingState) g.Node {
	return h.Section(h.Aria("labelledby", "verify"),
		h.H2(h.ID("verify"), g.Text("Verify")),
		some(x.Running, notice(toneWait, h.Role("status"), g.Text("The log is being verified for "), text(x.By), g.Text(" since "), clock(x.At),
			some(x.Total > 0, g.Textf(": %d of %d entries", x.Done, x.Total)), g.Text(". None begins before that ends. "), h.A(h.Href(p.Root+"audit#verify"), g.Text("Look again")))),
		some(x.By != "" && !x.Running, verifiedView(x)),
		quiet(g.Text("The service computes the hash of every entry from its bytes and the Merkle tree from the hashes, and compares the tree with every signed checkpoint. "+
			"Only a copy proves that to somebody who does not trust the service.")),
		some(!x.Running && x.Rest > 0, quiet(g.Text("The next one can begin in "+span(x.Rest)+"."))),
		some(!x.Running && x.Rest <= 0, h.Form(h.Method("post"), h.Action(p.Root+"audit/verify"), h.P(h.Class("buttons"), h.Button(g.Text("Verify the log"))))),
	)
}

// verifiedView renders the last result.
func verifiedView(x verifyingState) g.Node {
	if x.Why != "" {
		return notice(toneWait, h.Role("status"), h.B(g.Text("Not verified: ")), text(x.Why))
	}
	tone, role := toneGood, "status"
	if !x.Found.Intact {
		tone, role = toneBad, "alert"
	}
	return g.Group{
		notice(tone, h.Role(role), h.B(text(x.Found.Standing)), g.Text(" at "), clock(x.At), g.Text(", verified for "), text(x.By), g.Text(" in "+x.Took.Round(time.Millisecond).String()),
			some(x.Found.Wrong != "", h.Br(), long(x.Found.Wrong))),
		some(len(x.Found.Facts) > 0, h.Dl(g.Map(x.Found.Facts, func(f [2]string) g.Node { return g.Group{h.Dt(text(f[0])), h.Dd(text(f[1]))} }))),
	}
}

// lookedView renders how far the search looked.
func lookedView(d *auditData) g.Node {
	if !d.narrow() {
		return some(len(d.Entries) == 0, quiet(g.Text("No entries here.")))
	}
	words := strconv.Itoa(len(d.Entries)) + " of " + runview.Count(d.Looked, "entry") + " that were looked at."
	if d.Older != "" {
		words += " Older looks further back."
	}
	return g.Group{
		quiet(g.Text(words)),
		some(d.Archived > 0, quiet(g.Text(runview.Count(d.Archived, "entry")+" of those are archived. Only their segments tell whether they are looked for."))),
	}
}

func auditSearchView(p page, d *auditData) g.Node {
	input := func(label, name, value, like string) g.Node {
		return h.Label(g.Text(label), h.Input(h.Name(name), h.Value(value), h.Placeholder(like), h.MaxLength(strconv.Itoa(maxLine)), h.AutoComplete("off")))
	}
	return h.Details(h.Class("narrow"), h.ID("search"), g.If(d.narrow() || d.Wrong != "", g.Attr("open")), h.Summary(g.Text("Search")),
		some(d.Wrong != "", notice(toneBad, h.Role("alert"), text(d.Wrong))),
		h.Form(h.Class("filter"), h.Method("get"), h.Action(p.Root+"audit"), h.Role("search"),
			input("Run ", "run", d.Run, "r-01JD3Q"), input("Person ", "person", d.Person, "user:ada"), input("Kind ", "kind", d.Kind, "gate.decided"),
			input("Since ", "since", d.Since, "2h"), input("Until ", "until", d.Until, "2026-03-01 14:30"),
			h.Button(g.Text("Search")),
			some(d.narrow() || d.Wrong != "", h.A(h.Href(p.Root+"audit"), g.Text("everything"))),
		),
		quiet(g.Text("The beginning of a run's name, and a part of a person's name or of a kind are enough. Times are UTC, or how long ago: 2h, 3d.")),
	)
}

// streamView renders the stream of an entry, with a link if it is a run.
func streamView(p page, e Entry) g.Node {
	if id := runOf(e.Stream); id != "" {
		return h.A(h.Href(p.Root+"runs/"+segment(id)), g.Text("run/"+id))
	}
	return text(e.Stream)
}

func entryView(p page, e Entry) g.Node {
	return h.Tr(
		h.Td(h.A(h.Href(entryAddress(p, e.Seq)), g.Text(strconv.FormatUint(e.Seq, 10)))),
		h.Td(clock(e.Time)), h.Td(streamView(p, e)), h.Td(text(e.Kind)), h.Td(text(e.What)),
	)
}

// entryPageView renders one entry and how to prove that it is in the log.
func entryPageView(p page, d *entryData) g.Node {
	seq := strconv.FormatUint(d.Seq, 10)
	entry := func(name string, value g.Node) g.Node { return g.Group{h.Dt(g.Text(name)), h.Dd(value)} }
	return g.Group{
		h.H1(g.Text("Entry " + seq)),
		some(d.Unreadable, notice(toneBad, h.Role("alert"), h.B(g.Text("Part of this cannot be read.")),
			g.Text(" The service's log shows why; "), code(runview.VerifyCommand), g.Text(" checks the file."))),
		h.Dl(
			entry("Time", clock(d.Time)), some(d.Stream != "", entry("Stream", streamView(p, d.Entry))), some(d.Kind != "", entry("Kind", text(d.Kind))),
			some(d.By != "", entry("By", text(d.By))), entry("What", text(runview.OrText(d.What, "-"))),
		),
		some(!d.archived(), h.P(h.A(h.Href(p.Root+"api/v1/audit?from="+seq+"&limit=1"), g.Text("Everything in it, as JSON")))),
		section("proof", "Proof",
			h.Dl(
				entry("Leaf", g.Text(seq+" of a Merkle tree of "+runview.Count(int(d.Size), "entry"))), //nolint:gosec // entries on a disk
				some(d.Leaf != "", entry("Leaf hash", code(d.Leaf))),
				entry("Covered by", coveredView(d)),
			),
			some(d.Checkpoint != "", h.Pre(h.Class("wrap"), g.Text(d.Checkpoint))),
			quiet(g.Text("This page repeats what the service says. To prove it without trusting the service, check a copy of the journal against a checkpoint that you keep, "+
				"with the public key that was published when the journal was made:")),
			h.Pre(h.Class("wrap"), g.Text("responder audit checkpoint > kept.checkpoint\n"+
				"responder audit export --to journal-copy.db\n"+
				runview.VerifyCommand+" journal-copy.db --key journal.pub --checkpoint kept.checkpoint\n"+
				"responder audit show "+seq+" --file journal-copy.db")),
			quiet(g.Text("The third command computes the hash of every entry from its bytes, and the root of the checkpoint from the hashes. An entry that was edited, removed or moved is named.")),
		),
		h.P(h.Class("buttons"),
			some(d.Seq > 0, h.A(h.Href(entryAddress(p, d.Seq-1)), g.Text("Entry before"))),
			some(d.Seq+1 < d.Size, h.A(h.Href(entryAddress(p, d.Seq+1)), g.Text("Entry after"))),
			h.A(h.Href(p.Root+"audit"), g.Text("Audit log")),
		),
	}
}

func coveredView(d *entryData) g.Node {
	if d.Seq >= d.Covers {
		return g.Group{pill(toneWait, "not covered"), g.Text(" No signed checkpoint that can be read covers it yet.")}
	}
	return g.Textf("the newest signed checkpoint, over entries 0 to %d", d.Covers-1)
}
