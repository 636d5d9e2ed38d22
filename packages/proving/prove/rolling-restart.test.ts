/** A rolling restart under a minute's load before and after. */
import '../test/rolling-restart.test.js';
