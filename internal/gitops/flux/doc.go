// Package flux reads Kustomizations and HelmReleases of Flux, and asks Flux to look at
// Git now. It returns them as [gitops.Application], so the levers on Git know one form.
//
// What Flux's objects mean here:
//
//   - The source is a GitRepository that names a branch. Everything else, such as an
//     OCIRepository, a tag or a commit, is not what a commit would change: the levers
//     refuse it.
//   - status.lastAttemptedRevision is the commit that the live state was compared with.
//     status.lastAppliedRevision is the last one that was applied and, with spec.wait or
//     spec.healthChecks, became healthy.
//   - The condition Ready is False with HealthCheckFailed after a commit was applied
//     whose objects do not become healthy. With other reasons the commit was not applied.
//   - A Kustomization that is reconciled is being synced only if the commit is another
//     one than before. Flux reconciles the same commit again after each interval.
//   - status.history (Flux 2.7 and later) tells what was deployed when. Without it only
//     the commit that is applied now is known.
//   - A HelmRelease is the application of the Kustomization that its labels name, and
//     that lists it. Once the commit is applied, its condition Ready counts, for its
//     present generation: True is in effect, False with a reason of Helm's is a failure.
//
// Flux applies its branch and nothing else, so there is no sync to a commit of our
// choice: [Client.Sync] refuses. A suspended object is reported by
// [gitops.Application.Suspended].
package flux
