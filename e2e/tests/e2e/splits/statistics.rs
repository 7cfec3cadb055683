/// Pearson's chi-squared.
pub(super) fn chi_squared(counts: &[u32], weights: &[u32]) -> f64 {
    assert_eq!(counts.len(), weights.len());
    let total = f64::from(counts.iter().sum::<u32>());
    let sum = f64::from(weights.iter().sum::<u32>());
    let terms = counts.iter().zip(weights).map(|(count, weight)| {
        let expected = total * f64::from(*weight) / sum;
        (f64::from(*count) - expected).powi(2) / expected
    });
    terms.sum()
}

/// A correct split of two services exceeds this once in 1.7 million runs: P(chi-squared with 1 degree of freedom > 25)
/// = 5.7e-7.
pub(super) const TOO_MUCH_FOR_TWO: f64 = 25.0;
/// A correct split of three services exceeds this once in 3.2 million runs: P(chi-squared with 2 degrees of freedom >
/// 30) = 3.1e-7.
pub(super) const TOO_MUCH_FOR_THREE: f64 = 30.0;
