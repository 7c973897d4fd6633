import type { Finding } from '../protocol/errors.js';
import { nearestName } from './nearest-name.js';

/** Every option there is, by its name: the compiler sees to it that none is missing. */
export type OptionNames<Options> = Readonly<Record<Options extends unknown ? keyof Options : never, true>>;

/** Options that do not exist, which would be passed over in silence. `what` is said of them: "option", "label". */
export function unknownOptions(given: unknown, known: Readonly<Record<string, true>>, at: string, what = 'option'): Finding[] {
  if (typeof given !== 'object' || given === null) return [];
  return Object.keys(given)
    .filter((name) => !Object.hasOwn(known, name))
    .map((name) => ({ at, problem: `There is no ${what} "${name}".`, remedy: nearestName(name, Object.keys(known)) }));
}
