package repository

import (
	"bytes"
	"errors"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/inference-responder/responder/internal/fault"
)

// sshKey reads a private key.
func (s *secrets) sshKey(what, file, passphraseFile string) (ssh.Signer, error) {
	pem, err := s.read(what, file)
	if err != nil {
		return nil, err
	}
	pem += "\n" // the trimmed newline belongs to the form
	bad := func(hint string) error {
		return &fault.Error{Reason: fault.Forbidden, Message: what + " " + file + ": " + hint}
	}
	var missing *ssh.PassphraseMissingError
	signer, err := ssh.ParsePrivateKey([]byte(pem))
	switch {
	case errors.As(err, &missing) && passphraseFile == "":
		return nil, bad("has a passphrase: set the passphrase file")
	case errors.As(err, &missing):
		passphrase, err := s.word("passphrase file", passphraseFile)
		if err != nil {
			return nil, err
		}
		if signer, err = ssh.ParsePrivateKeyWithPassphrase([]byte(pem), []byte(passphrase)); err != nil {
			return nil, bad("the passphrase does not open it")
		}
		return signer, nil
	case err != nil:
		return nil, bad("is no private key (the cause is not shown: it may quote the file)")
	}
	return signer, nil
}

// sign returns the signature of a commit's bytes; empty when none is configured.
func (r *Repository) sign(payload []byte) (string, error) {
	switch s := r.o.Signing; {
	case s.SSHKeyFile != "":
		signer, err := r.secrets.sshKey("signing key file", s.SSHKeyFile, s.PassphraseFile)
		if err != nil {
			return "", err
		}
		signature, err := sshsig.Sign(bytes.NewReader(payload), signer, sshsig.HashSHA512, "git")
		if err != nil {
			return "", &fault.Error{Reason: fault.Forbidden, Message: "signing key file " + s.SSHKeyFile + ": does not sign", Err: err}
		}
		return string(sshsig.Armor(signature)), nil
	case s.OpenPGPKeyFile != "":
		entity, err := r.openPGP()
		if err != nil {
			return "", err
		}
		var b bytes.Buffer
		if err := openpgp.ArmoredDetachSign(&b, entity, bytes.NewReader(payload), nil); err != nil {
			return "", &fault.Error{Reason: fault.Forbidden, Message: "signing key file " + s.OpenPGPKeyFile + ": does not sign", Err: err}
		}
		return b.String() + "\n", nil
	}
	return "", nil
}

func (r *Repository) openPGP() (*openpgp.Entity, error) {
	s := r.o.Signing
	text, err := r.secrets.read("signing key file", s.OpenPGPKeyFile)
	if err != nil {
		return nil, err
	}
	bad := func(hint string) error {
		return &fault.Error{Reason: fault.Forbidden, Message: "signing key file " + s.OpenPGPKeyFile + ": " + hint}
	}
	ring, err := openpgp.ReadArmoredKeyRing(strings.NewReader(text))
	if err != nil || len(ring) == 0 {
		return nil, bad("is no armored OpenPGP key")
	}
	entity := ring[0]
	switch {
	case len(ring) > 1:
		return nil, bad("holds several keys: export one")
	case entity.PrivateKey == nil:
		return nil, bad("holds no private key (gpg --armor --export-secret-keys)")
	case !entity.PrivateKey.Encrypted:
		return entity, nil
	case s.PassphraseFile == "":
		return nil, bad("has a passphrase: set the passphrase file")
	}
	passphrase, err := r.secrets.word("passphrase file", s.PassphraseFile)
	if err != nil {
		return nil, err
	}
	if err := entity.DecryptPrivateKeys([]byte(passphrase)); err != nil {
		return nil, bad("the passphrase does not open it")
	}
	return entity, nil
}
