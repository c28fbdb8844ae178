package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/spf13/cobra"
)

func newAuditExportCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var file string
	var force bool
	cmd := &cobra.Command{
		Use:   "export --to FILE",
		Short: "Copy the journal of a running service to a file",
		Args:  none,
		Example: `  responder audit export --to journal-copy.db
  responder audit verify journal-copy.db --key journal.pub`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return errors.New("missing --to: the file to write")
			}
			n, err := exportJournal(cmd.Context(), &c, file, force)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Stdout, "%s: %d bytes; verify it with: responder audit verify %s --key journal.pub\n", file, n, file)
			return err
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().StringVar(&file, "to", "", "file to write")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file when it exists")
	return cmd
}

// exportJournal copies the journal to a file, which is whole or as it was before.
// Without force it never takes the place of a file, also not of one that comes
// into being meanwhile.
func exportJournal(ctx context.Context, c *client.Client, file string, force bool) (n int64, err error) {
	exists := fmt.Errorf("%s exists; name another file, or replace it with --force", file)
	info, err := os.Stat(file)
	switch {
	case err == nil && info.IsDir():
		return 0, fmt.Errorf("%s is a directory; name a file in it", file)
	case err == nil && !force:
		return 0, exists
	}
	device := err == nil && !info.Mode().IsRegular() // a pipe, say: nothing to replace
	into := file
	if err == nil && !device { // what a link leads to is replaced, and not the link
		if into, err = filepath.EvalSymlinks(file); err != nil {
			return 0, fmt.Errorf("write the copy: %w", err)
		}
	}
	body, err := c.Fetch(ctx, client.ExportPath, nil, "application/octet-stream")
	if err != nil {
		return 0, err
	}
	defer body.Close()
	if device {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return 0, fmt.Errorf("write the copy: %w", err)
		}
		n, err = io.Copy(f, body)
		return n, errors.Join(err, f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(into), "."+filepath.Base(into)+"-*")
	if err != nil {
		return 0, fmt.Errorf("write the copy: %w", err)
	}
	n, err = io.Copy(f, body)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = takePlace(f.Name(), into, force)
	}
	switch {
	case errors.Is(err, os.ErrExist):
		return n, errors.Join(exists, os.Remove(f.Name()))
	case err != nil:
		return n, errors.Join(fmt.Errorf("copy the journal: %w; %s is as it was", err, file), os.Remove(f.Name()))
	}
	return n, nil
}

// takePlace moves the copy to its name. Without force the name is claimed first, which
// one of several who want it can: not by a link, which some file systems lack.
func takePlace(temp, file string, force bool) error {
	if force {
		return os.Rename(temp, file)
	}
	claim, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(claim.Close(), os.Rename(temp, file)); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// checkpointAnswer is the answer of audit checkpoint: a signed note.
type checkpointAnswer struct {
	Checkpoint string `json:"checkpoint"`
}

func newAuditCheckpointCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Print a signed checkpoint to keep elsewhere",
		Long: `Print a signed note of the log's origin, size and root hash. Keep it on another
machine: it proves later that the log was not truncated or rolled back.`,
		Args: none,
		Example: `  responder audit checkpoint > kept.checkpoint
  responder audit verify journal.db --key journal.pub --checkpoint kept.checkpoint`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := c.Fetch(cmd.Context(), client.CheckpointPath, nil, "text/plain")
			if err != nil {
				return err
			}
			defer body.Close()
			text, err := io.ReadAll(io.LimitReader(body, 1<<20))
			if err != nil {
				return fmt.Errorf("read the checkpoint: %w", err)
			}
			// A signature is over the text byte by byte: programs get it as it is.
			return out.Print(p.Stdout, checkpointAnswer{string(text)}, func(w io.Writer) error {
				_, err := w.Write(text)
				return err
			})
		},
	}
	c.AddFlags(cmd)
	out.AddFlag(cmd)
	return cmd
}
