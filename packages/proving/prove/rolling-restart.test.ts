/** Two minutes of load around the rolling restart. */
import '../test/rolling-restart.test.js';
