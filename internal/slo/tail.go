package slo

import "math"

// lowerTail returns P(X <= k) for X ~ Binomial(n, p), by the identity
// P(X <= k) = I_{1-p}(n-k, k+1) (DLMF 8.17.5). k and n need not be whole:
// increase() of PromQL extrapolates. It rises with n-k and falls with k and p
// in the order that a count suggests.
func lowerTail(k, n, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n || p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	return betaRegularized(1-p, n-k, k+1)
}

// upperTail returns P(X >= k) for X ~ Binomial(n, p): I_p(k, n-k+1).
func upperTail(k, n, p float64) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n || p <= 0:
		return 0
	case p >= 1:
		return 1
	}
	return betaRegularized(p, k, n-k+1)
}

// betaRegularized returns the regularized incomplete beta function I_x(a, b)
// for a, b > 0, by its continued fraction (DLMF 8.17.22) with the modified
// Lentz algorithm. It converges within a few times sqrt(max(a, b)) terms for
// x < (a+1)/(a+b+2); the symmetry I_x(a, b) = 1 - I_{1-x}(b, a) covers the rest.
func betaRegularized(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2):
		return 1 - betaRegularized(1-x, b, a)
	}
	lab, _ := math.Lgamma(a + b)
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	const tiny, epsilon, terms = 1e-300, 1e-14, 100_000
	apart := func(v float64) float64 { // keeps a denominator away from zero
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/apart(1-(a+b)*x/(a+1))
	f := d
	for i := 1; i < terms; i++ {
		m := float64(i)
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d, c = 1/apart(1+even*d), apart(1+even/c)
		f *= d * c
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d, c = 1/apart(1+odd*d), apart(1+odd/c)
		f *= d * c
		if math.Abs(d*c-1) < epsilon {
			break
		}
	}
	return min(1, front*f)
}

// quantile returns the z with P(Z > z) = alpha for a standard normal Z.
func quantile(alpha float64) float64 { return math.Sqrt2 * math.Erfinv(1-2*alpha) }
