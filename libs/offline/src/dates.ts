import { MONTHS } from './english.js';

const MONTH = `(${MONTHS.join('|')})[a-z]*\\.?`;
const DAY = String.raw`(\d{1,2})(?:st|nd|rd|th)?`;

/** How dates are written, and in which order their groups stand. */
const FORMS: readonly { readonly pattern: RegExp; readonly order: 'ymd' | 'mdy' | 'dmy' }[] = [
  { pattern: /(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?![\w-])/y, order: 'ymd' },
  { pattern: new RegExp(String.raw`${MONTH} ${DAY}(?:,? (\d{4}))?(?!\w)`, 'iy'), order: 'mdy' },
  { pattern: new RegExp(String.raw`${DAY}(?: of)? ${MONTH}(?:,? (\d{4}))?(?!\w)`, 'iy'), order: 'dmy' },
  { pattern: /(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\w)/y, order: 'dmy' },
];

/** Something read from a text: how many characters it took, and its value in canonical form. */
export interface Reading {
  readonly length: number;
  readonly value: string;
}

/** Reads a calendar date that begins at `index`, as `YYYY-MM-DD`; one without a year needs `today` to take the year from. */
export function readDate(text: string, index: number, today: string | undefined): Reading | undefined {
  for (const { pattern, order } of FORMS) {
    pattern.lastIndex = index;
    const match = pattern.exec(text);
    const value = match ? dateOf(match, order, today) : undefined;
    if (match && value !== undefined) return { length: match[0].length, value };
  }
  return undefined;
}

function dateOf(match: RegExpExecArray, order: 'ymd' | 'mdy' | 'dmy', today: string | undefined): string | undefined {
  const part = (letter: string): string => match[order.indexOf(letter) + 1] ?? '';
  const year = part('y') || today?.slice(0, 4);
  return year === undefined ? undefined : validDate(`${year}-${monthOf(part('m'))}-${part('d').padStart(2, '0')}`);
}

function monthOf(text: string): string {
  const named = MONTHS.indexOf(text.toLowerCase().slice(0, 3)) + 1;
  return (named > 0 ? String(named) : text).padStart(2, '0');
}

/** The date itself when the calendar has it; 30 February is none. */
function validDate(text: string): string | undefined {
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text) ? text : undefined;
}

const DAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];
const OFFSETS: ReadonlyMap<string, number> = new Map([
  ['yesterday', -1],
  ['today', 0],
  ['tonight', 0],
  ['tomorrow', 1],
]);

/** The date a word such as "tomorrow" or "friday" means, seen from `today`; undefined for any other word. */
export function dateOfWord(word: string, today: string): string | undefined {
  const date = new Date(`${today}T00:00:00Z`);
  const weekday = DAYS.indexOf(word);
  const offset = weekday < 0 ? OFFSETS.get(word) : (weekday - date.getUTCDay() + 7) % 7 || 7;
  if (offset === undefined || Number.isNaN(date.getTime())) return undefined;
  date.setUTCDate(date.getUTCDate() + offset);
  return date.toISOString().slice(0, 10);
}

const INSTANT = /(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(:\d{2}(?:\.\d+)?)?(Z|[+-]\d{2}:\d{2})?(?!\w)/y;

/** Reads an ISO instant that begins at `index`; missing seconds are zero and a missing zone is UTC. */
export function readInstant(text: string, index: number): Reading | undefined {
  INSTANT.lastIndex = index;
  const match = INSTANT.exec(text);
  if (!match) return undefined;
  const [whole, date, time, seconds = ':00', zone = 'Z'] = match;
  const value = `${date}T${time}${seconds}${zone}`;
  return Number.isNaN(Date.parse(value)) ? undefined : { length: whole.length, value };
}

const CLOCK = /(\d{1,2})(?::(\d{2}))?(?: ?([ap])\.?m\b\.?)?(?!\w)/iy;

/** Reads a time of day such as "14:30" or "5 pm", as `HH:MM`. */
export function readTime(text: string, index: number): Reading | undefined {
  CLOCK.lastIndex = index;
  const match = CLOCK.exec(text);
  if (!match) return undefined;
  const [whole, hours, minutes, half] = match;
  if (minutes === undefined && half === undefined) return undefined;
  const hour = half === undefined ? Number(hours) : (Number(hours) % 12) + (half.toLowerCase() === 'p' ? 12 : 0);
  if (hour > 23 || Number(minutes ?? 0) > 59) return undefined;
  return { length: whole.length, value: `${String(hour).padStart(2, '0')}:${minutes ?? '00'}` };
}
