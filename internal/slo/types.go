package slo

import "time"

// Sample is one series' value at one moment.
type Sample struct {
	Labels map[string]string
	Value  float64 // may be NaN or infinite
	At     time.Time
}

// Vector is the answer of an instant query.
type Vector struct {
	Samples  []Sample
	Warnings []string
}

// Series is one series over time.
type Series struct {
	Labels map[string]string
	Points []Point
}

// Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// Matrix is the answer of a range query.
type Matrix struct {
	Series   []Series
	Warnings []string
}
