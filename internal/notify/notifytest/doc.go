// Package notifytest has servers that speak the protocols of the channels as the
// real ones do, with their limits and errors: PagerDuty's Events API v2, the part
// of Alertmanager's API v2 that silences need, a receiver of CloudEvents, and a
// server that accepts requests for repairs. It also has the checks that tests of
// channels share. For tests only.
package notifytest
