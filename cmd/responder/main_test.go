package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	bolt "go.etcd.io/bbolt"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/cli/dryrun"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

var update = flag.Bool("update", false, "write what the scripts print into the scripts")

// asProgram is a variable that makes the test binary the program.
const asProgram = "RESPONDER_TEST_AS_PROGRAM"

// TestMain lets the test binary be the program: for the scripts, which run it
// as the command responder, and for the program itself, which examines a
// journal in a child of its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "internal" || os.Getenv(asProgram) != "" {
		main()
		return
	}
	testscript.Main(m, map[string]func(){"responder": main, "curl": curl})
}

// curl URL prints what is at a URL, as the program of that name does.
func curl() {
	resp, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(7)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(os.Stdout, resp.Body); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(18)
	}
}

// TestScripts runs testdata/script: one file per command, with what a person
// types and what is printed.
func TestScripts(t *testing.T) {
	fixtures, err := filepath.Abs(filepath.Join("testdata", "fixtures"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("FIXTURES", fixtures)
			e.Setenv("EXAMPLE", filepath.Join(filepath.Dir(fixtures), "..", "..", "..", "deploy", "policy", "policy.yaml"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("COLUMNS", strconv.Itoa(runview.Width))
			return nil
		},
		Cmds:                scriptCommands(t),
		RequireExplicitExec: true,
	})
}

// scriptCommands returns the commands of the scripts that are not testscript's own.
func scriptCommands(t *testing.T) map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"journal":      makeJournal,
		"tamper":       tamper,
		"unsign":       unsign,
		"learned":      learned,
		"aged":         aged,
		"post":         post,
		"signin":       signIn,
		"await":        await,
		"columns":      columns,
		"address":      freeAddress,
		"run":          nameRun,
		"code":         exitCodeIs,
		"alert":        writeAlert,
		"replace":      replaceText,
		"damage":       damage,
		"certificates": makeCertificates,
		"slack":        func(ts *testscript.TestScript, _ bool, _ []string) { startSlackForScript(t, ts) },
		"engine":       engines{}.start(t),
		"impostor":     func(ts *testscript.TestScript, _ bool, _ []string) { startImpostor(t, ts) },
		"issuer":       func(ts *testscript.TestScript, _ bool, _ []string) { startIssuer(t, ts) },
	}
}

// makeJournal DIR LETTERS writes a journal with an entry for each letter.
func makeJournal(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	j, err := audit.Open(filepath.Join(dir, app.JournalFile), audit.Options{NoSync: true})
	ts.Check(err)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range len(args[1]) {
		_, err := j.Append(context.Background(), audit.Append{Stream: "control", After: audit.Any, Records: []audit.Record{{
			Kind: "pause.set", Time: at.Add(time.Duration(i) * time.Minute), Data: fmt.Appendf(nil, `{"by":"user:ada","reason":"number %c"}`, args[1][i]),
		}}})
		ts.Check(err)
	}
	ts.Check(j.Close())
}

// learned DIR STATE KIND RESULT... adds what the shipped playbook's lever came to
// on the sandbox's service before, one an hour; "demoted" is a demotion.
func learned(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	j, err := audit.Open(filepath.Join(dir, app.JournalFile), audit.Options{NoSync: true})
	ts.Check(err)
	id := ladder.LeverID{Playbook: "inference-slo-breach", Service: "serving/inference-chat", State: args[1], Lever: args[2]}
	at := time.Now().Add(-24 * time.Hour)
	for i, what := range args[3:] {
		rec := audit.Record{Kind: ladder.KindLeverResult, Time: at.Add(time.Duration(i) * time.Hour)}
		var v any = ladder.LeverResult{LeverID: id, Run: fmt.Sprintf("r-%d", i), Result: ladder.Result(what), Applied: true, Undone: what != "verified"}
		if what == "demoted" {
			rec.Kind = ladder.KindLeverDemoted
			v = ladder.Demotion{LeverID: id, Run: "r-0", Failed: i, Since: at, To: playbook.Suggest, Verdict: fmt.Sprint(i, " ineffective")}
		}
		rec.Data, err = json.Marshal(v)
		ts.Check(err)
		_, err = j.Append(context.Background(), audit.Append{Stream: app.LadderStream, After: audit.Any, Records: []audit.Record{rec}})
		ts.Check(err)
	}
	ts.Check(j.Close())
}

// tamper FILE OLD NEW replaces the first OLD in a file by NEW of the same length.
func tamper(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	data, err := os.ReadFile(file)
	ts.Check(err)
	if len(args[1]) != len(args[2]) || !strings.Contains(string(data), args[1]) {
		ts.Fatalf("tamper: %q is not in %s, or the lengths differ", args[1], args[0])
	}
	ts.Check(os.WriteFile(file, []byte(strings.ReplaceAll(string(data), args[1], args[2])), 0o600))
}

// unsign FILE removes every checkpoint from a journal, as one who has no key would.
func unsign(ts *testscript.TestScript, _ bool, args []string) {
	db, err := bolt.Open(ts.MkAbs(args[0]), 0o600, &bolt.Options{NoFreelistSync: true})
	ts.Check(err)
	ts.Check(db.Update(func(tx *bolt.Tx) error {
		if err := tx.DeleteBucket([]byte("checkpoints")); err != nil {
			return err
		}
		_, err := tx.CreateBucket([]byte("checkpoints"))
		return err
	}))
	ts.Check(db.Close())
}

// post URL FILE [TOKENFILE] posts a file and prints the status, as curl would.
// URL may name an environment variable's value.
func post(ts *testscript.TestScript, neg bool, args []string) {
	body, err := os.Open(ts.MkAbs(args[1]))
	ts.Check(err)
	defer body.Close()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, args[0], body)
	ts.Check(err)
	if len(args) > 2 {
		token, err := os.ReadFile(ts.MkAbs(args[2]))
		ts.Check(err)
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%d %s\n", resp.StatusCode, answer)
	if (resp.StatusCode == http.StatusOK) == neg {
		ts.Fatalf("post %s: %d %s", args[0], resp.StatusCode, answer)
	}
}

// patience is how long a script waits for another process, on a machine with other work too.
const patience = 4 * time.Minute

// await PATTERN COMMAND... runs the program until it prints the pattern.
func await(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile(args[0])
	deadline, pause := time.Now().Add(patience), 50*time.Millisecond
	for {
		err := ts.Exec(args[1], args[2:]...)
		if out := ts.ReadFile("stdout"); err == nil && pattern.MatchString(out) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("await: no %s within %s", args[0], patience)
		}
		time.Sleep(pause) // another process is waited for; nothing here could signal it
		pause = min(2*pause, 2*time.Second)
	}
}

// columns checks that no line printed last is longer than a terminal is wide.
func columns(ts *testscript.TestScript, _ bool, _ []string) {
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > runview.Width {
			ts.Fatalf("a line has %d columns: %q", n, line)
		}
	}
}

// ports counts the addresses given out. They lie below the ports that the system
// gives to listeners on port 0 and to connections (from 32768 on Linux), so that no
// server of another test takes one before the service of the script listens.
var ports atomic.Int64

// freeAddress sets ADDR to a loopback address that nobody uses.
func freeAddress(ts *testscript.TestScript, _ bool, _ []string) {
	for range 1000 {
		port := 20000 + (int64(os.Getpid())*64+ports.Add(1))%12000
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // taken
		}
		ts.Setenv("ADDR", ln.Addr().String())
		ts.Setenv("RESPONDER_SERVER", "http://"+ln.Addr().String())
		ts.Check(ln.Close())
		return
	}
	ts.Fatalf("address: no port is free")
}

// nameRun NAME sets NAME to the id of the newest run.
func nameRun(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("responder", "runs", "list", "-o", "json"))
	var runs []struct {
		Run string `json:"run"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &runs))
	if len(runs) == 0 {
		ts.Fatalf("run: there is none")
	}
	ts.Setenv(args[0], runs[0].Run)
}

// exitCodeIs N COMMAND... runs the program, which must exit with N.
func exitCodeIs(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// writeAlert FILE TRUNCATED LABEL=VALUE... writes a webhook body with an alert
// that began a moment ago, and says that so many more were left out.
func writeAlert(ts *testscript.TestScript, _ bool, args []string) {
	truncated, err := strconv.Atoi(args[1])
	ts.Check(err)
	labels, err := dryrun.ParseAlert(args[2:])
	ts.Check(err)
	n := playbook.Notification{
		Receiver: "test", Status: playbook.Firing, GroupKey: "{}:{}", Version: "4", TruncatedAlerts: truncated,
		Alerts: []playbook.Alert{{Status: playbook.Firing, Labels: labels, StartsAt: time.Now().Add(-time.Minute)}},
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), n.AppendJSON(nil), 0o600))
}

// replaceText OLD NEW FILE replaces text in a file.
func replaceText(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[2])
	data, err := os.ReadFile(file)
	ts.Check(err)
	ts.Check(os.WriteFile(file, []byte(strings.ReplaceAll(string(data), args[0], args[1])), 0o600))
}

// damage FILE overwrites the middle of a file, as a failing disk does.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	data, err := os.ReadFile(file)
	ts.Check(err)
	for i := 16 << 10; i < min(len(data), 96<<10); i++ {
		data[i] = 0xa5
	}
	ts.Check(os.WriteFile(file, data, 0o600))
}

// aged DIR writes a journal that is a hundred days old: notifications that started
// nothing, the run r-old, which has ended, and a pause that somebody lifted.
func aged(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	j, err := audit.Open(filepath.Join(dir, app.JournalFile), audit.Options{NoSync: true, CheckpointEvery: 8})
	ts.Check(err)
	at := time.Now().Add(-100 * 24 * time.Hour)
	add := func(stream, kind, data string) {
		_, err := j.Append(context.Background(), audit.Append{Stream: stream, After: audit.Any, Records: []audit.Record{{
			Kind: kind, Time: at, Data: []byte(data),
		}}})
		ts.Check(err)
		at = at.Add(time.Hour)
	}
	add("control", "pause.set", `{"by":"user:ada","reason":"maintenance"}`)
	for i := range 20 {
		add("intake", "notification", fmt.Sprintf(`{"groupKey":"%d","alerts":[]}`, i))
		add("dispatch", "alert.unmatched", fmt.Sprintf(`{"notification":%d,"index":%d,"upto":1,"done":true,"episodes":["e@%d"]}`, 1+2*i, i, i))
	}
	add("run/r-old", "run.started", `{"start":{"run":"r-old","playbook":"inference-slo-breach"}}`)
	add("run/r-old", "run.ended", `{"ending":{"outcome":"resolved"}}`)
	add("control", "pause.lifted", `{"by":"user:ada","reason":"done"}`)
	ts.Check(j.Close())
}
