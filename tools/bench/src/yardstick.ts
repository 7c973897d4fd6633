import { repeat, type Contender } from './sampling.js';

export const YARDSTICK = 'JSON round trip of 1 KB';

const TIMES = 5000;
const row = {
  id: 'c-123',
  name: 'John Smith',
  city: 'Dublin',
  active: true,
  spend: [472.19, 99.5, 12],
};
const text = JSON.stringify(Array.from({ length: 11 }, (_, index) => ({ ...row, index })));

/** Something every machine does at its own speed, so that figures in its units can be compared. */
export function yardstick(): Contender {
  return {
    name: YARDSTICK,
    units: TIMES,
    work: () => repeat(TIMES, () => JSON.stringify(JSON.parse(text))),
  };
}
