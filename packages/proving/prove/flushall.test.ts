/** FLUSHALL with 200 runs in each state. */
import '../test/flushall.test.js';
