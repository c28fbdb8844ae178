package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/notify/slack/approvals"
)

// deskStream is where the desk keeps what it showed. Only the desk writes it.
const deskStream = "desk"

// slackDoor is the door to Slack: the desk, and what takes the clicks.
type slackDoor struct {
	desk     *approvals.Approvals
	receiver *slack.Receiver
	refused  chan slack.Refused
	metrics  *slackMetrics
	socket   bool
}

// refusedMost is how many refused requests wait to be journaled. A flood of
// them is counted, not kept.
const refusedMost = 64

// openDoor makes the door of the service's workspace; nil when there is none.
func (s *Service) openDoor(o Options) (*slackDoor, error) {
	w := s.world.Slack
	if w == nil {
		return nil, nil
	}
	d := &slackDoor{refused: make(chan slack.Refused, refusedMost), metrics: newSlackMetrics(s.metrics.registry), socket: w.Transport() == slack.SocketMode}
	link := linker(s.externalURL)
	options := approvals.Options{
		Runs: deskRuns{s.executor}, Control: control{s.executor}, Memory: deskMemory{s.journal}, Slack: w.client, Names: w.names,
		Channel: func(st machine.State) string { return w.ChannelOf(st.Start.Service.Name, st.Start.Playbook) },
		Link:    link.run,
		Burst:   approvals.Burst{Gates: w.Storm.Gates, Window: w.Storm.Window},
		Pace:    w.pace, Now: s.world.Now, Log: o.Log,
		Observe: d.metrics.called, Refusing: d.metrics.refused,
	}
	if s.world.Deps.Querier != nil {
		options.Budget = (&errorBudget{querier: s.world.Deps.Querier, now: s.world.Now}).of
	}
	var err error
	if d.desk, err = approvals.New(options); err != nil {
		return nil, err
	}
	w.renewed = d.desk.Renewed
	d.receiver, err = slack.NewReceiver(w.client, slack.ReceiverOptions{Consume: d.desk.Click, Refused: d.refuse, Logger: o.Log})
	if err != nil {
		return nil, err
	}
	d.metrics.connect(d.desk.Down, d.socket)
	return d, nil
}

// refuse counts a refusal and hands it on to be journaled. It is called while a
// request is answered, so it waits for nobody.
func (d *slackDoor) refuse(r slack.Refused) {
	d.metrics.refused(string(r.Reason))
	select {
	case d.refused <- r:
	default: // it was counted
	}
}

// journalRefused journals what the receiver refused, until ctx is done.
func (d *slackDoor) journalRefused(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-d.refused:
			d.desk.Refused(ctx, r)
		}
	}
}

// runDesk shows runs once they are loaded. Clicks are taken before, and wait.
func (s *Service) runDesk(ctx context.Context) error {
	if !s.library.await(ctx) {
		return nil
	}
	return s.door.desk.Run(ctx)
}

// deskRuns reads the executor's runs for the desk.
type deskRuns struct{ executor *executor.Executor }

// Changes names each run that something became durable of. A run that changes
// while nobody reads is named once.
func (r deskRuns) Changes(ctx context.Context) <-chan string {
	updates, out := r.executor.Subscribe(ctx), make(chan string)
	go func() {
		defer close(out)
		var waiting []string
		known := map[string]bool{}
		for {
			var to chan<- string
			var next string
			if len(waiting) > 0 {
				to, next = out, waiting[0]
			}
			select {
			case <-ctx.Done():
				return
			case u, ok := <-updates:
				if !ok {
					return
				}
				if !known[u.Run] {
					known[u.Run], waiting = true, append(waiting, u.Run)
				}
			case to <- next:
				delete(known, next)
				waiting = waiting[1:]
			}
		}
	}()
	return out
}

// Open lists the runs that have not ended.
func (r deskRuns) Open() []machine.State {
	open := true
	return r.executor.Runs(executor.Filter{Open: &open})
}

// Run returns a run and its events.
func (r deskRuns) Run(id string) (machine.State, []machine.Event, bool) {
	s, events, err := r.executor.RunHistory(id)
	return s, events, err == nil
}

// deskMemory keeps the desk's records in the journal.
type deskMemory struct{ journal *audit.Journal }

// deskFrom is the cell with the index of the first record that is folded.
const deskFrom = "desk/from"

// Fold yields every record that was not forgotten.
func (m deskMemory) Fold(each func(approvals.Record)) error {
	from, err := m.from()
	if err != nil {
		return err
	}
	for rec, err := range m.journal.Stream(deskStream, from) {
		if err != nil {
			return fmt.Errorf("stream %s: %w", deskStream, err)
		}
		r, err := decodeDeskRecord(rec)
		if err != nil {
			return err
		}
		each(r)
	}
	return nil
}

// from is where folding begins. A cell that makes no sense is no reason to
// forget what was shown: all of it is read.
func (m deskMemory) from() (uint64, error) {
	raw, err := m.journal.Meta(deskFrom)
	if err != nil || raw == nil {
		return 0, err
	}
	head, err := m.journal.Head(deskStream)
	if err != nil {
		return 0, err
	}
	if from, err := strconv.ParseUint(string(raw), 10, 64); err == nil && from <= head {
		return from, nil
	}
	return 0, nil
}

// Forget keeps where folding begins.
func (m deskMemory) Forget(before uint64) error {
	return m.journal.SetMeta(deskFrom, []byte(strconv.FormatUint(before, 10)))
}

// Append makes records durable.
func (m deskMemory) Append(ctx context.Context, records ...approvals.Record) (uint64, error) {
	batch := make([]audit.Record, len(records))
	for i, r := range records {
		data, err := json.Marshal(r)
		if err != nil {
			return 0, fmt.Errorf("encode a record of the desk: %w", err)
		}
		batch[i] = audit.Record{Kind: r.Kind, Time: r.At.UTC(), Data: data}
	}
	done, err := m.journal.Append(ctx, audit.Append{Stream: deskStream, After: audit.Any, Records: batch})
	if err != nil {
		return 0, err
	}
	return done[0].Index, nil
}

func decodeDeskRecord(rec audit.Record) (approvals.Record, error) {
	r := approvals.Record{Kind: rec.Kind, At: rec.Time, Index: rec.Index}
	if err := json.Unmarshal(rec.Data, &r); err != nil {
		return r, fmt.Errorf("entry %d of the journal: %w", rec.Seq, err)
	}
	return r, nil
}
