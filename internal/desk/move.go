package desk

import (
	"context"
	"maps"
	"slices"
	"time"
)

// relist moves the runs of a list that nobody has seen to the channels of the
// corrected configuration: one list for each channel.
func (d *Desk) relist(ctx context.Context, l list) (bool, error) {
	d.mu.Lock()
	unseen := d.nowhere(l.channel, l.ref, l.maybe)
	d.mu.Unlock()
	if !unseen {
		return false, nil
	}
	to := map[string][]string{} // runs by channel
	var leave []string
	for _, run := range l.runs {
		state, _, ok := d.o.Runs.Run(run)
		if !ok {
			continue
		}
		if channel := d.o.Channel(state); channel != "" && channel != l.channel {
			to[channel], leave = append(to[channel], run), append(leave, run)
		}
	}
	if len(to) == 0 {
		return false, nil
	}
	var records []Record
	lists := map[string]bool{}
	for _, channel := range slices.Sorted(maps.Keys(to)) {
		key := newID()
		lists[key] = true
		for _, run := range to[channel] {
			records = append(records, Record{Kind: KindAsking, Run: run, Channel: channel, List: key})
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, was := d.memory.down[l.channel]; was && !d.used(l.channel, leave...) {
		records = append(records, Record{Kind: KindRecovered, Channel: l.channel}) // nothing waits for it any more
	}
	if err := d.note(ctx, records...); err != nil {
		return false, err
	}
	for key := range lists {
		d.memory.lists[key].maybe = time.Time{} // it is not posted yet, and nobody else posts
		d.sender.markList(key)
	}
	if len(leave) < len(l.runs) {
		d.sender.markList(l.key)
	}
	d.sender.wake()
	return true, nil
}
