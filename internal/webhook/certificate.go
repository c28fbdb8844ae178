package webhook

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"slices"
)

var errTwoNames = fmt.Errorf("%w: the client certificate has several common names", errBadCredential)

// certificate returns the identity of a certificate that an authority vouches for. One
// with several common names is nobody's: readers differ in which one counts.
func (a *authenticator) certificate(cert *x509.Certificate) (Identity, error) {
	if len(commonNames(cert)) > 1 {
		a.unlisted(cert)
		return Identity{}, errTwoNames
	}
	id, ok := a.client(cert)
	if !ok {
		a.unlisted(cert)
		return Identity{}, errBadCredential
	}
	return a.people.ofCredential(id), nil
}

// commonNames returns all common names of a certificate. [pkix.Name.CommonName] is the last.
func commonNames(cert *x509.Certificate) (names []string) {
	for _, n := range cert.Subject.Names {
		if n.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 3}) {
			names = append(names, fmt.Sprint(n.Value))
		}
	}
	if len(names) == 0 {
		return []string{cert.Subject.CommonName}
	}
	return names
}

// client finds the client that the certificate names. A certificate that names
// several is nobody's: each of them could be meant.
func (a *authenticator) client(cert *x509.Certificate) (Identity, bool) {
	names := namesOf(cert)
	var found []Identity
	for _, c := range a.clients {
		if slices.Contains(names[cmp.Or(c.Kind, CommonName)], c.Name) {
			id := c.identity()
			id.Strong = c.Strong
			found = append(found, id)
		}
	}
	if len(found) != 1 {
		return Identity{}, false
	}
	return found[0], true
}

func namesOf(cert *x509.Certificate) map[NameKind][]string {
	names := map[NameKind][]string{CommonName: commonNames(cert), DNSName: cert.DNSNames, EmailName: cert.EmailAddresses}
	for _, u := range cert.URIs {
		names[URIName] = append(names[URIName], u.String())
	}
	return names
}

// mostUnlisted bounds the certificates that are logged.
const mostUnlisted = 100

// unlisted logs once that a certificate, which an authority vouches for, is nobody's.
func (a *authenticator) unlisted(cert *x509.Certificate) {
	id := digest(sha256.Sum256(cert.Raw))
	a.mu.Lock()
	known := a.logged[id] || len(a.logged) >= mostUnlisted
	if !known {
		a.logged[id] = true
	}
	a.mu.Unlock()
	if known {
		return
	}
	names := namesOf(cert)
	a.logger.Warn("a client certificate is refused: no entry of auth.mtls.clients names it, or several do, or it has several common names; kind says which of its names counts (default: common_name)",
		"common_name", names[CommonName], "dns", names[DNSName], "email", names[EmailName], "uri", names[URIName])
}
