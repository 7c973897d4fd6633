import Sequencer from '@jest/test-sequencer';

/**
 * What takes longest: workers and processes that are killed, and suites on a server. One that began
 * last would keep a processor waiting.
 */
const LONG = [/chaos/u, /\.(long|release)\.spec/u, /\.(postgres|mariadb|typeorm)\.spec/u];

/**
 * Orders the files for a machine that has run none of them before, so that Jest knows no times: by
 * what their names say, then as Jest does.
 */
export default class LongestFirst extends Sequencer {
  sort(tests) {
    const rankOf = ({ path }) => LONG.findIndex((name) => name.test(path)) >>> 0;
    return super.sort(tests).sort((one, other) => rankOf(one) - rankOf(other));
  }
}
