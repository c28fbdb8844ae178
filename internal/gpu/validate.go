package gpu

import (
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a snapshot. They are far above what machines have, and keep what a
// broken or lying agent says small.
const (
	MaxGPUs    = 32  // of a node
	MaxNVLinks = 64  // of a GPU
	MaxMIG     = 16  // instances of a GPU
	MaxPods    = 256 // of a GPU
	MaxEvents  = 128 // of a GPU
	MaxMinutes = 32  // of a GPU
	MaxErrors  = 64  // of a GPU, and of a node
	maxText    = 512 // bytes of any text
)

// MaxPeriod is how far apart an agent may take its samples. Three of them are how
// old readings may be: it is not for the one that is asked to widen that.
const MaxPeriod = time.Minute

// Validate refuses a snapshot that no honest agent sends, such as two GPUs with one
// UUID; nil: nothing. Values that cannot be true are left to [Judge].
func (s Snapshot) Validate() error {
	s.Format = Format
	return s.check()
}

// check refuses what no honest agent says; see also plausible.
func (s Snapshot) check() error {
	switch {
	case s.Format != Format:
		return fmt.Errorf("format is %q, want %q", clip(s.Format), Format)
	case s.Node == "":
		return errors.New("node is empty")
	case s.TakenAt.IsZero():
		return errors.New("taken_at is missing")
	case s.PeriodMS < 100 || s.PeriodMS > MaxPeriod.Milliseconds():
		return fmt.Errorf("period_ms is %d, want 100 to %d", s.PeriodMS, MaxPeriod.Milliseconds())
	case len(s.GPUs) > MaxGPUs:
		return fmt.Errorf("gpus has %d entries, more than %d", len(s.GPUs), MaxGPUs)
	}
	for name, v := range map[string]string{"node": s.Node, "boot_id": s.BootID, "source": s.Source, "agent": s.Agent, "driver": s.Driver, "nvml": s.NVML} {
		if err := text(name, v); err != nil {
			return err
		}
	}
	if err := validErrors(s.Errors); err != nil {
		return err
	}
	uuids, indexes := map[string]int{}, map[int]bool{}
	for i, g := range s.GPUs {
		if first, twice := uuids[g.UUID]; twice {
			return fmt.Errorf("gpus[%d].uuid: %s stands at gpus[%d] already; two GPUs never share one", i, g.UUID, first)
		}
		if indexes[g.Index] {
			return fmt.Errorf("gpus[%d].index: %d stands there already", i, g.Index)
		}
		uuids[g.UUID], indexes[g.Index] = i, true
		watching := s.Since
		if s.Source == SourceExporter {
			watching = time.Time{} // Prometheus watched, for longer
		}
		if err := errors.Join(g.validate(watching, s.TakenAt), g.validStretches(watching, s.TakenAt)); err != nil {
			return fmt.Errorf("gpus[%d].%w", i, err)
		}
	}
	return nil
}

// ClockSlack is how far two times of one node may disagree.
const ClockSlack = 2 * time.Second

func (g GPU) validate(watching, now time.Time) error {
	switch {
	case g.UUID == "":
		return errors.New("uuid: empty")
	case g.Index < 0 || g.Index >= 1<<10:
		return fmt.Errorf("index: %d is no index of a GPU", g.Index)
	case g.TakenAt.IsZero():
		return errors.New("taken_at: missing")
	case g.TakenAt.After(now.Add(ClockSlack)):
		return errors.New("taken_at: later than the snapshot's own")
	}
	pods, _ := g.Pods.Get()
	for _, n := range []struct {
		what string
		have int
		most int
	}{
		{"nvlinks", len(g.NVLinks), MaxNVLinks},
		{"mig.instances", len(g.MIG.Instances), MaxMIG},
		{"pods", len(pods), MaxPods},
		{"events", len(g.Events), MaxEvents},
		{"minutes", len(g.Minutes), MaxMinutes},
		{"stretches", len(g.Stretches), maxStretches},
	} {
		if n.have > n.most {
			return fmt.Errorf("%s: %d entries, more than %d", n.what, n.have, n.most)
		}
	}
	for _, f := range []struct{ name, v string }{{"uuid", g.UUID}, {"pci", g.PCI}, {"name", g.Name}, {"serial", g.Serial}} {
		if err := text(f.name, f.v); err != nil {
			return err
		}
	}
	if err := validErrors(g.Errors); err != nil {
		return err
	}
	if err := g.validParts(pods); err != nil {
		return err
	}
	return g.validHistory(watching, now)
}

func (g GPU) validParts(pods []Pod) error {
	links := map[int]bool{}
	for i, l := range g.NVLinks {
		if l.Link < 0 || l.Link >= MaxNVLinks || links[l.Link] {
			return fmt.Errorf("nvlinks[%d].link: %d is out of range or stands there twice", i, l.Link)
		}
		links[l.Link] = true
	}
	instances := map[string]bool{}
	for i, m := range g.MIG.Instances {
		if m.UUID == "" || instances[m.UUID] {
			return fmt.Errorf("mig.instances[%d].uuid: %q is empty or stands there twice", i, clip(m.UUID))
		}
		instances[m.UUID] = true
		if err := errors.Join(text("uuid", m.UUID), text("profile", m.Profile)); err != nil {
			return fmt.Errorf("mig.instances[%d].%w", i, err)
		}
	}
	for i, p := range pods {
		if p.Name == "" && p.UID == "" {
			return fmt.Errorf("pods[%d]: neither name nor uid", i)
		}
		for _, v := range []string{p.Namespace, p.Name, p.UID, p.Container, p.Instance} {
			if err := text("text", v); err != nil {
				return fmt.Errorf("pods[%d].%w", i, err)
			}
		}
	}
	return nil
}

// validHistory refuses times that run backwards or lie ahead: the node's clock
// jumped while they were taken, and nothing can be said about duration. Nor does
// anybody know all events of a time before watching began.
func (g GPU) validHistory(watching, now time.Time) error {
	last := time.Time{}
	for i, m := range g.Minutes {
		switch {
		case m.Start.IsZero() || m.Start.After(now.Add(ClockSlack)):
			return fmt.Errorf("minutes[%d].start: missing, or later than the snapshot's taken_at", i)
		case i > 0 && m.Start.Sub(last) < time.Minute-ClockSlack:
			return fmt.Errorf("minutes[%d].start: less than a minute after the one before; the clock jumped", i)
		case m.Samples < 0 || m.Missed < 0 || m.Samples+m.Missed > 10_000:
			return fmt.Errorf("minutes[%d]: %d samples and %d missed cannot be", i, m.Samples, m.Missed)
		}
		for bit, n := range m.Reasons {
			if len(bit.Bits()) != 1 || n < 0 || n > m.Samples {
				return fmt.Errorf("minutes[%d].reasons: %s in %d of %d samples cannot be", i, bit, n, m.Samples)
			}
		}
		last = m.Start
	}
	last = time.Time{}
	for i, e := range g.Events {
		if e.At.IsZero() || e.At.After(now.Add(ClockSlack)) || e.At.Before(last.Add(-ClockSlack)) {
			return fmt.Errorf("events[%d].at: missing, out of order or later than the snapshot's taken_at", i)
		}
		last = e.At
	}
	switch since := g.EventsSince; {
	case since.After(now.Add(ClockSlack)):
		return errors.New("events_since: later than the snapshot's taken_at")
	case !since.IsZero() && since.Before(watching.Add(-ClockSlack)):
		return errors.New("events_since: before watching began")
	}
	b := g.Baseline
	switch {
	case b.At.After(now.Add(ClockSlack)):
		return errors.New("baseline.at: later than the snapshot's taken_at")
	case !b.ErredAt.IsZero() && (b.ErredAt.Before(b.At) || b.ErredAt.After(now.Add(ClockSlack))):
		return errors.New("baseline.erred_at: before its at, or later than the snapshot's taken_at")
	}
	return nil
}

func validErrors(errs []ReadError) error {
	if len(errs) > MaxErrors {
		return fmt.Errorf("errors: %d entries, more than %d", len(errs), MaxErrors)
	}
	for i, e := range errs {
		if _, ok := absences[e.Why]; !ok {
			return fmt.Errorf("errors[%d].why: %q is not a known reason", i, clip(string(e.Why)))
		}
		if err := errors.Join(text("what", e.What), text("detail", e.Detail)); err != nil {
			return fmt.Errorf("errors[%d].%w", i, err)
		}
	}
	return nil
}

// text refuses what would harm a terminal, a message or a log line.
func text(name, v string) error {
	if len(v) > maxText {
		return fmt.Errorf("%s: %d bytes, more than %d", name, len(v), maxText)
	}
	if !utf8.ValidString(v) {
		return fmt.Errorf("%s: not UTF-8", name)
	}
	for _, r := range v {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("%s: holds %U, which cannot be printed", name, r)
		}
	}
	return nil
}
