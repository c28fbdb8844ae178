package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/cli/worlds"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rehearsal"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// testSuffix is how the file of a playbook's tests ends.
const testSuffix = ".test.yaml"

// testFlags are the flags of playbook test.
type testFlags struct {
	run, junit     string
	verbose, cover bool
	seed           uint64
}

func newPlaybookTestCommand(p *command.Process) *cobra.Command {
	var f testFlags
	var out command.Output
	cmd := &cobra.Command{
		Use:   "test FILE|DIR...",
		Short: "Run the tests of playbooks, on canned results and in simulated fleets",
		Long: `Run the tests of playbooks. They need no cluster and no Prometheus. Of a directory the
files *.test.yaml and *.world.yaml are run, and none of the directories below it.

A file *.test.yaml names its playbook, and lists cases: an alert, what each check
answers, what becomes of each lever, and what the run has to come to. Hours pass in
milliseconds. Conditions, verdicts, waits and approvals are decided as in the service.
Queries are not asked, parameters reach no lever, and guards and policies are not
evaluated.

A file *.world.yaml is a scenario: a simulated fleet, what goes wrong in it, and what
the playbooks have to make of it. The rules fire the alert on the simulated series; the
executor, the guards, the checks and the levers are the service's. Two hours pass in
seconds, and the same seed has the same result. A scenario that fails prints what
happened.

Exit codes:
  0  every case and scenario passed
  1  at least one failed, or a file is wrong`,
		Args: some("FILE or DIR..., such as queue-too-long.test.yaml"),
		Example: `  responder playbook test playbooks/tests
  responder playbook test queue-too-long.test.yaml -v --run 'replica'
  responder playbook test playbooks/tests --cover
  responder playbook test queue-too-long.world.yaml -v --seed 7
  responder playbook test playbooks/tests --junit playbooks.xml`,
		RunE: func(cmd *cobra.Command, args []string) error { return testPlaybooks(cmd.Context(), p, &out, f, args) },
	}
	cmd.Flags().StringVar(&f.run, "run", "", "only cases and scenarios whose name this regular expression matches")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "show every case and scenario: the edges it took, and its levers")
	cmd.Flags().BoolVar(&f.cover, "cover", false, "list the states and edges that no case took")
	cmd.Flags().StringVar(&f.junit, "junit", "", "also write the results to this file, as JUnit XML for CI systems")
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "of all that looks random in a scenario, in place of the scenario's own")
	out.AddFlag(cmd)
	return cmd
}

func testPlaybooks(ctx context.Context, p *command.Process, out *command.Output, f testFlags, args []string) error {
	only, err := regexp.Compile(f.run)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	files, err := testFiles(args)
	if err != nil {
		return err
	}
	report := api.PlaybookTest{Cases: []api.PlaybookCase{}}
	covered := map[string][]rehearsal.Result{} // by file of the playbook
	books := map[string]*playbook.Playbook{}
	scenarios, err := readWorlds(files, only)
	if err != nil {
		return err
	}
	for _, file := range files {
		if strings.HasSuffix(file, worlds.Suffix) {
			continue
		}
		suite, of, err := readSuite(file, books)
		if err != nil {
			return err
		}
		for _, c := range suite.Cases {
			if only.MatchString(c.Name) {
				result := c.Run(books[of])
				covered[of] = append(covered[of], result)
				report.Cases = append(report.Cases, caseOf(file, result))
				report.Failed += min(1, len(result.Failed))
			}
		}
		if covered[of] == nil {
			covered[of] = []rehearsal.Result{}
		}
	}
	results, err := playWorlds(ctx, p, scenarios, f.seed)
	if err != nil {
		return err
	}
	addWorlds(&report, results, f.verbose, func(name string, way rehearsal.Result) {
		for of, book := range books {
			if book.Name == name {
				covered[of] = append(covered[of], way)
			}
		}
	})
	if len(report.Cases)+len(report.Worlds) == 0 {
		return fmt.Errorf("no case matches --run %q", f.run)
	}
	if f.cover {
		for _, of := range sortedKeys(covered) {
			report.Coverage = append(report.Coverage, coverageOf(books[of], covered[of]))
		}
	}
	if f.junit != "" {
		if err := writeJUnit(f.junit, report); err != nil {
			return err
		}
	}
	err = out.Print(p.Stdout, report, func(w io.Writer) error { return writePlaybookTests(w, report, f.verbose) })
	if err == nil && report.Failed > 0 {
		return command.ExitCode(command.ExitError)
	}
	return err
}

func sortedKeys(m map[string][]rehearsal.Result) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// testFiles returns the files that are named, and those of directories.
func testFiles(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fmt.Errorf("read test: %w", err)
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		found := len(files)
		for _, suffix := range []string{testSuffix, worlds.Suffix} {
			some, err := filepath.Glob(filepath.Join(arg, "*"+suffix))
			if err != nil {
				return nil, fmt.Errorf("list tests: %w", err)
			}
			files = append(files, some...)
		}
		if len(files) == found {
			return nil, fmt.Errorf("no tests in %s: the file of a playbook's tests ends in %s or %s%s", arg, testSuffix, worlds.Suffix, testsBelow(arg))
		}
	}
	return files, nil
}

// testsBelow names a directory with tests below one that has none.
func testsBelow(dir string) string {
	for _, below := range []string{"*", "*/*"} {
		for _, suffix := range []string{testSuffix, worlds.Suffix} {
			if some, err := filepath.Glob(filepath.Join(dir, below, "*"+suffix)); err == nil && len(some) > 0 {
				return "; there are some in " + filepath.Dir(some[0])
			}
		}
	}
	return ""
}

// readSuite reads a file of tests and its playbook, which it adds to books under
// the name it returns.
func readSuite(file string, books map[string]*playbook.Playbook) (*rehearsal.Suite, string, error) {
	data, err := app.ReadPlaybookFile(file)
	if err != nil {
		return nil, "", err
	}
	suite, err := rehearsal.Read(file, data)
	if err != nil {
		return nil, "", err
	}
	of := suite.Playbook
	if !filepath.IsAbs(of) {
		of = filepath.Join(filepath.Dir(file), of)
	}
	if books[of] == nil {
		data, err := app.ReadPlaybookFile(of)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", file, err)
		}
		all, err := playbook.Parse(of, data, kinds.Declarations())
		if err != nil {
			return nil, "", err
		}
		if len(all) != 1 {
			return nil, "", fmt.Errorf("%s: %s has %s, and a test is of one", file, of, runview.Count(len(all), "playbook"))
		}
		books[of] = all[0]
	}
	return suite, of, suite.Compile(books[of], kinds.Declarations())
}

func caseOf(file string, r rehearsal.Result) api.PlaybookCase {
	out := api.PlaybookCase{
		Result: "ok", Case: r.Case.Name, File: file, Line: r.Case.Line, Path: append([]string{}, r.Path...), Steps: []api.PlaybookStep{}, Levers: []string{},
		Outcome: string(r.Outcome), Took: playbook.FormatDuration(r.Took), Wrong: r.Failed,
	}
	if len(r.Failed) > 0 {
		out.Result = "failed"
	}
	for _, t := range r.Edges {
		out.Steps = append(out.Steps, api.PlaybookStep{After: playbook.FormatDuration(t.After), From: t.From, To: t.To, Why: t.Why})
	}
	for _, l := range r.Levers {
		out.Levers = append(out.Levers, l.String())
	}
	return out
}

func coverageOf(p *playbook.Playbook, results []rehearsal.Result) api.PlaybookCoverage {
	c := rehearsal.Cover(p, results)
	out := api.PlaybookCoverage{Playbook: p.Name, States: c.States, Edges: c.Edges, Unseen: append([]string{}, c.Unseen...), Untaken: []api.PlaybookEdge{}}
	for _, t := range c.Untaken {
		out.Untaken = append(out.Untaken, api.PlaybookEdge{From: t.From, To: t.To, Why: t.Why})
	}
	return out
}

func writePlaybookTests(w io.Writer, r api.PlaybookTest, verbose bool) error {
	for _, c := range r.Cases {
		word := map[bool]string{true: "ok", false: "FAILED"}[c.Result == "ok"]
		if !verbose && c.Result == "ok" {
			continue
		}
		fmt.Fprintf(w, "%-6s  %s (%s)\n", word, runview.Printable(c.Case), c.Took)
		if verbose || len(c.Wrong) > 0 {
			writeSteps(w, c)
		}
		for _, wrong := range c.Wrong {
			hanging(w, "        ", "    ", fmt.Sprintf("%s:%d: %s", c.File, c.Line, wrong))
		}
	}
	for _, c := range r.Coverage {
		writeCoverage(w, c)
	}
	writeWorlds(w, r, verbose)
	what := []string{}
	if len(r.Cases) > 0 {
		what = append(what, runview.Count(len(r.Cases), "case"))
	}
	if len(r.Worlds) > 0 {
		what = append(what, runview.Count(len(r.Worlds), "scenario"))
	}
	_, err := fmt.Fprintf(w, "%s, %d failed\n", strings.Join(what, " and "), r.Failed)
	return err
}

func writeSteps(w io.Writer, c api.PlaybookCase) {
	for _, s := range c.Steps {
		line := fmt.Sprintf("%s -> %s", s.From, s.To)
		if s.To == "" {
			line = s.From + ": " + c.Outcome
		}
		if s.Why != "" {
			line += "  (" + s.Why + ")"
		}
		hanging(w, fmt.Sprintf("        %8s  ", "+"+s.After), "", line)
	}
	if len(c.Levers) > 0 {
		hanging(w, "        applied   ", "", strings.Join(c.Levers, ", "))
	}
}

// hanging writes text after a head, its further lines below the first one and
// indented further.
func hanging(w io.Writer, head, further, text string) {
	for i, line := range runview.Wrap(runview.Printable(text), runview.Width-len(head)-len(further)) {
		if i > 0 {
			head = strings.Repeat(" ", len(head)) + further
			further = ""
		}
		fmt.Fprintln(w, head+line)
	}
}

func writeCoverage(w io.Writer, c api.PlaybookCoverage) {
	share := func(of, lacks int) string {
		return fmt.Sprintf("%d of %d (%d %%)", of-lacks, of, 100*(of-lacks)/max(of, 1))
	}
	fmt.Fprintf(w, "%s: states %s, edges %s\n", c.Playbook, share(c.States, len(c.Unseen)), share(c.Edges, len(c.Untaken)))
	for _, s := range c.Unseen {
		fmt.Fprintf(w, "  no case enters  %s\n", s)
	}
	for _, e := range c.Untaken {
		why := ""
		if e.Why != "" {
			why = "  (" + e.Why + ")"
		}
		hanging(w, "  no case takes   ", "", fmt.Sprintf("%s -> %s%s", e.From, e.To, why))
	}
}
