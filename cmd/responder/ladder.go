package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/webhook"
)

const ladderLong = `Show how far each lever can be trusted on each service: how often it was tried,
what came of it, its effective level of autonomy and what holds it there.

A lever that is not proven to help several times in a row is demoted to suggest
by itself, and people are told; 'responder ladder promote' lifts that. The other
way nothing happens by itself: when a lever was verified often enough in a row, a
line proposes what to change in the configuration.`

func newLadderCommand(p *process) *cobra.Command {
	c := client{process: p}
	var out output
	var service, playbook string
	cmd := &cobra.Command{
		Use:   "ladder",
		Short: "Show how far levers can be trusted, and what holds each at its level",
		Long:  ladderLong,
		Args:  verbOrNothing,
		Example: `  responder ladder
  responder ladder --service serving/chat -o wide`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if service != "" {
				query.Set("service", service)
			}
			if playbook != "" {
				query.Set("playbook", playbook)
			}
			var answer webhook.LeverList
			if err := c.get(cmd.Context(), ladderPath, query, &answer); err != nil {
				return err
			}
			return out.print(p.stdout, answer.Levers, func(w io.Writer) error { return writeLadder(w, answer.Levers, out.wide()) })
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&service, "service", "", "only levers on this service")
	cmd.Flags().StringVar(&playbook, "playbook", "", "only levers of this playbook")
	out.addFlag(cmd)
	cmd.AddCommand(newLadderPromoteCommand(p))
	return cmd
}

// verbOrNothing refuses words that are no subcommand.
func verbOrNothing(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownVerb(cmd, args[0])
}

func newLadderPromoteCommand(p *process) *cobra.Command {
	c := client{process: p}
	var reason string
	var out output
	cmd := &cobra.Command{
		Use:   "promote PLAYBOOK SERVICE LEVER --reason TEXT",
		Short: "Lift the demotion of a lever",
		Long: `Lift the demotion of a lever: what led to it is forgotten, and the lever may go
as far again as configuration, service, playbook, state and policy allow. Nothing
is raised above that. LEVER is the name of its state, or its kind where that is
enough.`,
		Args:    exactly("which lever? name playbook, service and state; 'responder ladder' shows them", 3),
		Example: "  responder ladder promote bad-rollout serving/chat rollback --reason 'the alert was wrong, fixed in #812'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return errors.New("why? a promotion takes --reason, which the journal keeps")
			}
			r := webhook.Promotion{Playbook: args[0], Service: args[1], Lever: args[2], Reason: reason}
			var answer webhook.LeverList
			if err := c.send(cmd.Context(), http.MethodPost, promotePath, r, &answer); err != nil {
				return err
			}
			l, ok := promoted(answer.Levers, args[2])
			if !ok {
				return errors.New("promoted, but the server's answer does not show the lever; look with: responder ladder")
			}
			return out.print(p.stdout, l, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "promoted: %s\n", printable(standingLine(l)))
				return err
			})
		},
	}
	c.addFlags(cmd)
	out.addFlag(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

// promoted finds the lever that was promoted just now: of those that the name,
// or the kind, stands for the one that changed last.
func promoted(levers []webhook.LeverTrust, name string) (webhook.LeverTrust, bool) {
	levers = slices.DeleteFunc(levers, func(l webhook.LeverTrust) bool { return l.State != name && l.Lever != name })
	if len(levers) == 0 {
		return webhook.LeverTrust{}, false
	}
	return slices.MaxFunc(levers, func(a, b webhook.LeverTrust) int { return a.Changed.Compare(b.Changed) }), true
}

// exactly wants n arguments.
func exactly(missing string, n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return errors.New(missing)
		case len(args) > n:
			return fmt.Errorf("%q is too much", args[n])
		default:
			return nil
		}
	}
}

// standingLine says how far a lever may go, and why not further.
func standingLine(l webhook.LeverTrust) string {
	line := fmt.Sprintf("%s of playbook %s on %s is at %s", l.State, l.Playbook, l.Service, l.Level)
	if why := limitWords(l); why != "" {
		line += ", held there by " + why
	}
	return line
}

func limitWords(l webhook.LeverTrust) string {
	var rules []string
	for _, x := range l.Limits {
		rules = append(rules, x.Rule)
	}
	return strings.Join(rules, "; ")
}

// limitKinds is limitWords in as few words as there are limits, what was learned
// and decided before what is configured.
func limitKinds(l webhook.LeverTrust) string {
	var kinds []string
	for _, x := range slices.Backward(l.Limits) {
		first, _, _ := strings.Cut(strings.TrimPrefix(x.Rule, "the "), " ")
		kinds = append(kinds, strings.TrimSuffix(first, ":"))
	}
	return strings.Join(kinds, ",")
}

// writeLadder writes the table, and below it what the columns are too narrow
// for: why a level is what it is, and what could be raised.
func writeLadder(w io.Writer, levers []webhook.LeverTrust, wide bool) error {
	if err := ladderTable(levers).write(w, wide); err != nil {
		return err
	}
	for _, l := range levers {
		var notes []string
		if l.Demoted {
			notes = append(notes, l.Why)
		}
		if l.Proposal != "" {
			notes = append(notes, l.Proposal)
		}
		for _, note := range notes {
			text := fmt.Sprintf("%s on %s: %s", l.State, l.Service, note)
			if _, err := fmt.Fprintf(w, "\n%s\n", printable(strings.Join(wrap(text, tableWidth-2), "\n  "))); err != nil {
				return err
			}
		}
	}
	return nil
}

func ladderTable(levers []webhook.LeverTrust) *table {
	t := &table{
		columns: []column{
			{head: "SERVICE", flex: true},
			{head: "PLAYBOOK", flex: true},
			{head: "LEVER", flex: true},
			{head: "LEVEL"},
			{head: "TRIED"},
			{head: "OK"},
			{head: "FAILED"},
			{head: "HELD BY", flex: true},

			{head: "LIMITED BY", wide: true},
			{head: "KIND", wide: true},
			{head: "INEFFECTIVE", wide: true},
			{head: "INCONCLUSIVE", wide: true},
			{head: "UNDONE", wide: true},
			{head: "OVERRIDDEN", wide: true},
			{head: "REFUSED", wide: true},
			{head: "DENIED", wide: true},
			{head: "WOULD APPLY", wide: true},
			{head: "RECOVERED", wide: true},
			{head: "IN A ROW", wide: true},
			{head: "LAST (UTC)", wide: true},
			{head: "CHANGED (UTC)", wide: true},
			{head: "WHY", wide: true},
		},
		empty: "no lever has come to a result yet",
	}
	for _, l := range levers {
		t.add(l.Service, l.Playbook, l.State, l.Level.String(), fmt.Sprint(l.Attempts), fmt.Sprint(l.Verified), fmt.Sprint(l.Ineffective+l.Inconclusive),
			limitKinds(l), limitWords(l), l.Lever, fmt.Sprint(l.Ineffective), fmt.Sprint(l.Inconclusive), fmt.Sprint(l.Undone), fmt.Sprint(l.Overridden),
			fmt.Sprint(l.Refused), fmt.Sprint(l.Denied), fmt.Sprint(l.WouldApply), recoveredWord(l), fmt.Sprint(l.Streak), stamp(l.LastAt), stamp(l.Changed), l.Why)
	}
	return t
}

// recoveredWord is how many alerts recovered by themselves, of those that are
// known to have or not.
func recoveredWord(l webhook.LeverTrust) string {
	return fmt.Sprintf("%d of %d", l.Recovered, l.WouldApply-l.Watched)
}
