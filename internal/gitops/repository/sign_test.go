package repository

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"golang.org/x/crypto/ssh"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

// sshKeyFile writes a private key, and gives its public one.
func sshKeyFile(t testing.TB, kind, passphrase string) (string, ssh.Signer) {
	t.Helper()
	var key any
	var err error
	switch kind {
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ecdsa":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return secretFile(t, string(pem.EncodeToMemory(block))), signer
}

// TestSignSSH has git itself verify.
func TestSignSSH(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Fatal("ssh-keygen is missing, with which git verifies: install it (Debian: apt-get install openssh-client)")
	}
	for _, kind := range []string{"ed25519", "rsa", "ecdsa"} {
		s := gittest.NewServer(t)
		base := s.Push("first", map[string]string{"a.yaml": manifest})
		passphrase := map[string]string{"ed25519": "open sesame"}[kind]
		file, signer := sshKeyFile(t, kind, passphrase)
		r := open(t, s, func(o *Options) {
			o.Signing.SSHKeyFile = file
			if passphrase != "" {
				o.Signing.PassphraseFile = secretFile(t, passphrase+"\n")
			}
		})
		done, err := r.Commit(t.Context(), change192(base))
		if err != nil {
			t.Fatal(err)
		}
		allowed := secretFile(t, "responder@example.com "+string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
		s.GitBare("-c", "gpg.ssh.allowedSignersFile="+allowed, "verify-commit", done.SHA)
		shown := s.GitBare("-c", "gpg.ssh.allowedSignersFile="+allowed, "log", "-1", "--show-signature", done.SHA)
		if !strings.Contains(shown, `Good "git" signature for responder@example.com`) {
			t.Errorf("%s: git says\n%s", kind, shown)
		}
		s.GitBare("fsck", "--strict")
	}
}

// TestSignOpenPGP has gpg itself verify.
func TestSignOpenPGP(t *testing.T) {
	for _, passphrase := range []string{"", "open sesame"} {
		entity, err := openpgp.NewEntity("responder", "", "responder@example.com", nil)
		if err != nil {
			t.Fatal(err)
		}
		var public, private bytes.Buffer
		armored(t, &public, openpgp.PublicKeyType, func(w *bytes.Buffer) error { return entity.Serialize(w) })
		if passphrase != "" {
			if err := entity.EncryptPrivateKeys([]byte(passphrase), nil); err != nil {
				t.Fatal(err)
			}
		}
		armored(t, &private, openpgp.PrivateKeyType, func(w *bytes.Buffer) error { return entity.SerializePrivateWithoutSigning(w, nil) })
		s := gittest.NewServer(t)
		base := s.Push("first", map[string]string{"a.yaml": manifest})
		r := open(t, s, func(o *Options) {
			o.Signing.OpenPGPKeyFile = secretFile(t, private.String())
			if passphrase != "" {
				o.Signing.PassphraseFile = secretFile(t, passphrase)
			}
		})
		done, err := r.Commit(t.Context(), change192(base))
		if err != nil {
			t.Fatal(err)
		}
		text := s.GitBare("cat-file", "commit", done.SHA)
		signature, payload := split(text + "\n")
		if _, err := openpgp.CheckArmoredDetachedSignature(openpgp.EntityList{entity}, strings.NewReader(payload), strings.NewReader(signature), nil); err != nil {
			t.Errorf("the signature is not over the commit: %v", err)
		}
		verifyWithGPG(t, s, public.Bytes(), done.SHA)
	}
}

// verifyWithGPG runs where gpg is: the library has verified already.
func verifyWithGPG(t *testing.T, s *gittest.Server, public []byte, sha string) {
	t.Helper()
	gpg, err := exec.LookPath("gpg")
	if err != nil {
		t.Log("gpg is missing: git verify-commit was not tried (Debian: apt-get install gpg)")
		return
	}
	home, err := os.MkdirTemp("", "gpg") // short: gpg's socket has a limit
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	cmd := exec.Command(gpg, "--homedir", home, "--batch", "--no-autostart", "--import")
	cmd.Stdin = bytes.NewReader(public)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gpg --import: %v\n%s", err, out)
	}
	wrapper := filepath.Join(t.TempDir(), "gpg")
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nexec "+gpg+" --homedir "+home+" --no-autostart \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.GitBare("-c", "gpg.program="+wrapper, "verify-commit", sha)
}

func armored(t *testing.T, out *bytes.Buffer, kind string, write func(*bytes.Buffer) error) {
	t.Helper()
	var raw bytes.Buffer
	if err := write(&raw); err != nil {
		t.Fatal(err)
	}
	w, err := armor.Encode(out, kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(raw.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// split takes the signature out of a commit, as git does to verify it.
func split(commit string) (signature, payload string) {
	inside := false
	for line := range strings.SplitAfterSeq(commit, "\n") {
		switch {
		case strings.HasPrefix(line, "gpgsig "):
			inside = true
			signature += strings.TrimPrefix(line, "gpgsig ")
		case inside && strings.HasPrefix(line, " "):
			signature += line[1:]
		default:
			inside = false
			payload += line
		}
	}
	return signature, payload
}

func TestBadSigningKeys(t *testing.T) {
	s := gittest.NewServer(t)
	base := s.Push("first", map[string]string{"a.yaml": manifest})
	locked, _ := sshKeyFile(t, "ed25519", "open sesame")
	for name, test := range map[string]struct {
		signing Signing
		says    string
	}{
		"ssh missing":       {Signing{SSHKeyFile: "/nowhere/key"}, "/nowhere/key"},
		"ssh garbage":       {Signing{SSHKeyFile: secretFile(t, canary)}, "no private key"},
		"ssh empty":         {Signing{SSHKeyFile: secretFile(t, "")}, "empty"},
		"ssh locked":        {Signing{SSHKeyFile: locked}, "passphrase file"},
		"ssh wrong":         {Signing{SSHKeyFile: locked, PassphraseFile: secretFile(t, canary)}, "does not open"},
		"openpgp garbage":   {Signing{OpenPGPKeyFile: secretFile(t, canary)}, "no armored"},
		"openpgp directory": {Signing{OpenPGPKeyFile: t.TempDir()}, "cannot be read"},
	} {
		r := open(t, s, func(o *Options) { o.Signing = test.signing })
		_, err := r.Commit(t.Context(), change192(base))
		if e := asError(t, err, fault.Forbidden, test.says); e.Unknown || strings.Contains(e.Error(), canary) {
			t.Errorf("%s: %v", name, e)
		}
	}
	if s.Head("main") != base {
		t.Error("an unsigned commit was pushed")
	}
	_, err := New(Options{URL: s.RepositoryURL(), Dir: t.TempDir(), Signing: Signing{SSHKeyFile: "a", OpenPGPKeyFile: "b"}})
	wantError(t, err, fault.Invalid, "keep one")
}
