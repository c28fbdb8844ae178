// Command kubectl runs kubectl's own commands for whoever asks over a socket. Tests
// ask thousands of times, and starting a process costs more than most answers:
//
//	kubectl SOCKET
//
// A request is a POST of the arguments as a JSON array. The answer has what kubectl
// prints, and status 200 if it would exit with 0, else 422 and its error.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	_ "unsafe" // for go:linkname

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// fatal is what kubectl would print before it exits.
type fatal string

// What cobra keeps of each command that was ever made: how its flags are completed in a
// shell. It is half a megabyte a request, and there is no other way to let go of it.
//
//go:linkname completions github.com/spf13/cobra.flagCompletionFunctions
var completions map[*pflag.Flag]cobra.CompletionFunc

//go:linkname completionsMutex github.com/spf13/cobra.flagCompletionMutex
var completionsMutex *sync.RWMutex

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: kubectl SOCKET")
	}
	util.BehaviorOnFatal(func(message string, _ int) { panic(fatal(message)) })
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, http.HandlerFunc(answer)))
}

func answer(w http.ResponseWriter, r *http.Request) {
	var args []string
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var out, errors bytes.Buffer
	if err := run(args, genericclioptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errors}); err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		out.Reset()
		fmt.Fprint(&out, errors.String(), err)
	}
	_, _ = w.Write(out.Bytes()) // whoever asked may be gone

	completionsMutex.Lock()
	defer completionsMutex.Unlock()
	clear(completions)
}

// run executes one command line. Commands report what they cannot do by a fatal error.
func run(args []string, streams genericclioptions.IOStreams) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fatal:
			err = fmt.Errorf("%s", strings.TrimSpace(string(r)))
		default:
			panic(r)
		}
	}()
	command := cmd.NewKubectlCommand(cmd.KubectlOptions{
		Arguments: append([]string{"kubectl"}, args...), IOStreams: streams,
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50),
	})
	command.SetArgs(args)
	command.SetOut(streams.Out)
	command.SetErr(streams.ErrOut)
	command.SilenceErrors, command.SilenceUsage = true, true
	return command.Execute()
}
