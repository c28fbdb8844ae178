package runview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
)

// LadderTable returns the table of the levers and their autonomy.
func LadderTable(levers []api.TrackRecord) *Table {
	t := &Table{
		Columns: []Column{
			{Head: "SERVICE", Flex: true},
			{Head: "PLAYBOOK", Flex: true},
			{Head: "LEVER", Flex: true},
			{Head: "LEVEL"},
			{Head: "TRIED"},
			{Head: "OK"},
			{Head: "FAILED"},
			{Head: "HELD BY", Flex: true},

			{Head: "LIMITED BY", Wide: true},
			{Head: "KIND", Wide: true},
			{Head: "INEFFECTIVE", Wide: true},
			{Head: "INCONCLUSIVE", Wide: true},
			{Head: "UNDONE", Wide: true},
			{Head: "OVERRIDDEN", Wide: true},
			{Head: "REFUSED", Wide: true},
			{Head: "DENIED", Wide: true},
			{Head: "WOULD APPLY", Wide: true},
			{Head: "RECOVERED", Wide: true},
			{Head: "IN A ROW", Wide: true},
			{Head: "LAST (UTC)", Wide: true},
			{Head: "CHANGED (UTC)", Wide: true},
			{Head: "WHY", Wide: true},
		},
		Empty: "no lever has come to a result yet",
	}
	for _, l := range levers {
		t.Add(l.Service, l.Playbook, l.Lever, l.Level, fmt.Sprint(l.Tried), fmt.Sprint(l.OK), fmt.Sprint(l.Ineffective+l.Inconclusive),
			limitKinds(l), LimitWords(l), l.Kind, fmt.Sprint(l.Ineffective), fmt.Sprint(l.Inconclusive), fmt.Sprint(l.Undone), fmt.Sprint(l.Overridden),
			fmt.Sprint(l.Refused), fmt.Sprint(l.Denied), fmt.Sprint(l.WouldApply), recoveredWord(l), fmt.Sprint(l.InARow), Time(l.Last), Time(l.Changed), l.Why)
	}
	return t
}

// LimitWords lists the rules that hold a lever at its level.
func LimitWords(l api.TrackRecord) string {
	var rules []string
	for _, x := range l.HeldBy {
		rules = append(rules, x.Rule)
	}
	return strings.Join(rules, "; ")
}

// limitKinds is limitWords in as few words as there are limits, what was learned
// and decided before what is configured.
func limitKinds(l api.TrackRecord) string {
	var kinds []string
	for _, x := range slices.Backward(l.HeldBy) {
		first, _, _ := strings.Cut(strings.TrimPrefix(x.Rule, "the "), " ")
		kinds = append(kinds, strings.TrimSuffix(first, ":"))
	}
	return strings.Join(kinds, ",")
}

// recoveredWord is how many alerts recovered by themselves, of those that are
// known to have or not.
func recoveredWord(l api.TrackRecord) string {
	return fmt.Sprintf("%d of %d", l.Recovered, l.WouldApply-l.Watched)
}

// LadderNotes returns what the table is too narrow for: why levers were demoted,
// and what could be raised.
func LadderNotes(levers []api.TrackRecord) []string {
	var notes []string
	for _, l := range levers {
		if l.Demoted {
			notes = append(notes, l.Lever+" on "+l.Service+": "+l.Why)
		}
		if l.Proposal != "" {
			notes = append(notes, l.Lever+" on "+l.Service+": "+l.Proposal)
		}
	}
	return notes
}
