package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/outbound"
	"github.com/inference-responder/responder/internal/setting"
)

// The environment's words for the flags of the same meaning.
const (
	tokenVariable    = "RESPONDER_TOKEN_FILE"
	commandVariable  = "RESPONDER_TOKEN_COMMAND"
	userVariable     = "RESPONDER_USER"
	passwordVariable = "RESPONDER_PASSWORD_FILE"
	certVariable     = "RESPONDER_CERT_FILE"
	keyVariable      = "RESPONDER_KEY_FILE"
	caVariable       = "RESPONDER_CA_FILE"
	clearVariable    = "RESPONDER_PLAINTEXT"
)

// Credentials is who asks, and by what the server is known. Secrets come from
// files and programs only: what stands in flags and variables is seen by
// every process.
type Credentials struct {
	TokenFile, tokenCommand string
	user, passwordFile      string
	certFile, keyFile       string
	caFile                  string
	plaintext               bool        // a secret may go over plain http to another machine
	plaintextSaid           func() bool // by a flag, which may say no; nil: there are no flags
}

// Identity is credentials made ready for requests.
type Identity struct {
	server        string // the URL of the service that is asked
	kind          string // of the credential, in words; empty: there is none
	Authorization string // the header; empty: none is sent
	plaintext     bool   // it may be readable on its way
	transport     http.RoundTripper
}

func (c *Credentials) addCredentialFlags(cmd *cobra.Command) {
	flag := func(into *string, name, variable, usage string) {
		cmd.Flags().StringVar(into, name, "", usage+" (default $"+variable+")")
	}
	flag(&c.TokenFile, "token-file", tokenVariable, "file with the bearer token")
	flag(&c.tokenCommand, "token-command", commandVariable, "program with arguments that prints the bearer token, run without a shell")
	cmd.MarkFlagsMutuallyExclusive("token-file", "token-command")
	flag(&c.user, "user", userVariable, "user name, with --password-file")
	flag(&c.passwordFile, "password-file", passwordVariable, "file with the user's password")
	flag(&c.certFile, "cert-file", certVariable, "file with the client certificate, PEM, with --key-file")
	flag(&c.keyFile, "key-file", keyVariable, "file with the client certificate's key, PEM")
	flag(&c.caFile, "ca-file", caVariable, "file with the CA certificates that vouch for an https server")
	cmd.Flags().BoolVar(&c.plaintext, "plaintext", false, "send the token or password over plain http to another machine, readable on the way (default $"+clearVariable+")")
	c.plaintextSaid = func() bool { return cmd.Flags().Changed("plaintext") }
}

// Identify reads the credentials. It runs the token command, if that is what
// gives them.
func (c *Client) Identify(ctx context.Context) (Identity, error) {
	server, from, err := c.settle()
	if err != nil {
		return Identity{}, err
	}
	who := Identity{server: server, kind: from.kind(), plaintext: from.plaintext}
	if err := from.keepsSecret(server); err != nil { // before a secret is read, or made
		return Identity{}, err
	}
	if who.transport, err = from.transport(); err != nil {
		return Identity{}, err
	}
	if from.user != "" {
		password, err := readSecret("password", from.passwordFile, "--password-file and $"+passwordVariable)
		if err != nil {
			return Identity{}, err
		}
		who.Authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(from.user+":"+password))
		return who, nil
	}
	token, err := from.token(ctx, c.Process.Stderr)
	if token != "" {
		who.Authorization = "Bearer " + token
	}
	return who, err
}

// keepsSecret refuses to send a secret where it could be read on its way.
func (from Credentials) keepsSecret(base string) error {
	if from.TokenFile+from.tokenCommand+from.user == "" || from.plaintext || !setting.InTheClear(base) {
		return nil
	}
	return fmt.Errorf("%s is plain http: whoever is on the way to it could read the %s; give it as https://, or say --plaintext or $%s=true where something else encrypts the way",
		base, from.kind(), clearVariable)
}

// checkRedirect follows the server to another address as long as a secret stays
// one there: http sends it along to the same host, whatever the scheme.
func (who Identity) checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= 10:
		return errors.New("it sends from one address to the next")
	case who.Authorization != "" && !who.plaintext && setting.InTheClear(req.URL.String()):
		return fmt.Errorf("it sends on to plain http at %s, where the %s could be read on its way", req.URL.Host, who.kind)
	}
	return nil
}

// complete fills in from the environment what no flag says, and credentials from what
// credentials returns of it. A flag for one kind of credential puts the environment's
// other kind out of use.
func (c Credentials) complete(getenv, credentials func(string) string) (Credentials, error) {
	or := func(into *string, variable string) {
		if *into == "" {
			*into = credentials(variable)
		}
	}
	basic, token := c.user != "" || c.passwordFile != "", c.TokenFile != "" || c.tokenCommand != ""
	switch {
	case basic && token:
		return c, errors.New("a token and a user are two credentials; keep one of --token-file, --token-command and --user")
	case basic:
		or(&c.user, userVariable)
		or(&c.passwordFile, passwordVariable)
	case !token:
		or(&c.TokenFile, tokenVariable)
		or(&c.tokenCommand, commandVariable)
		or(&c.user, userVariable)
		or(&c.passwordFile, passwordVariable)
	}
	or(&c.certFile, certVariable)
	or(&c.keyFile, keyVariable)
	if c.caFile == "" {
		c.caFile = getenv(caVariable)
	}
	secret := c.TokenFile+c.tokenCommand+c.user != ""
	if said := getenv(clearVariable); said != "" && secret && (c.plaintextSaid == nil || !c.plaintextSaid()) {
		var err error
		if c.plaintext, err = strconv.ParseBool(said); err != nil {
			return c, fmt.Errorf("$%s is %q; true lets a token or password go over plain http", clearVariable, said)
		}
	}
	switch {
	case c.TokenFile != "" && c.tokenCommand != "":
		return c, fmt.Errorf("$%s and $%s are both set; unset one", tokenVariable, commandVariable)
	case c.TokenFile+c.tokenCommand != "" && c.user != "":
		return c, fmt.Errorf("a token and $%s are both set; keep one, or say by --token-file, --token-command or --user which it is", userVariable)
	case (c.user == "") != (c.passwordFile == ""):
		return c, fmt.Errorf("a user name and a password go together; --user and --password-file name them, or $%s and $%s", userVariable, passwordVariable)
	case strings.Contains(c.user, ":"):
		return c, fmt.Errorf("user name %q has a colon, which basic authentication cannot carry", c.user)
	case (c.certFile == "") != (c.keyFile == ""):
		return c, fmt.Errorf("a certificate and its key go together; --cert-file and --key-file name them, or $%s and $%s", certVariable, keyVariable)
	}
	return c, nil
}

// kind is the credential in words; empty without one.
func (c Credentials) kind() string {
	switch {
	case c.TokenFile != "" || c.tokenCommand != "":
		return "token"
	case c.user != "":
		return "user or password"
	case c.certFile != "":
		return "certificate"
	default:
		return ""
	}
}

// readSecret returns the first line of a file that says something: where two
// are valid, as while one is rotated, either will do.
func readSecret(what, file, names string) (string, error) {
	text, err := outbound.ReadSecret(file)
	if err != nil {
		return "", fmt.Errorf("read %s: %w; %s name the file", what, err, names)
	}
	secret, _, _ := strings.Cut(text, "\n")
	if secret = strings.TrimSpace(secret); strings.ContainsFunc(secret, unicode.IsControl) {
		return "", fmt.Errorf("read %s: %s is no file of text; %s name the file", what, file, names)
	}
	return secret, nil
}

// transport carries requests over connections that know the server by the CA
// certificates and show it the client's.
func (c Credentials) transport() (http.RoundTripper, error) {
	t, err := outbound.Options{
		Connect: 10 * time.Second, CAFile: c.caFile, CertFile: c.certFile, KeyFile: c.keyFile,
		AnyAddress: true, // whoever runs the command names the server
	}.Transport()
	if err != nil {
		return nil, fmt.Errorf("%w; --ca-file and $%s name the file of the server's authorities, --cert-file and $%s that of the client", err, caVariable, certVariable)
	}
	t.DisableCompression = true
	return t, nil
}

// tlsAdvice reports what to do about a connection that failed over certificates;
// empty when it did not.
func tlsAdvice(err error) string {
	var unknown x509.UnknownAuthorityError
	var refused *tls.AlertError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &plain), errors.Is(err, http.ErrSchemeMismatch):
		return "it speaks no TLS there: give it as http://, or name the port that does"
	case errors.As(err, &unknown):
		return "--ca-file or $" + caVariable + " names the CA certificates that vouch for it"
	case errors.As(err, &refused), strings.Contains(err.Error(), "remote error: tls"):
		return "the server refused the certificate of --cert-file; auth.mtls.ca_file of its configuration says whose it takes"
	default:
		return ""
	}
}
