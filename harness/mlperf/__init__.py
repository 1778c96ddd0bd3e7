"""MLPerf Tiny: boards that speak the protocol of its runner, a runner without windows, results as a submission."""
