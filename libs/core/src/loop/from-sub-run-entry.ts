import type { JsonObject } from '../protocol/json.js';
import type { RunEntry } from '../protocol/run-journal.js';

/** Whose entry it is. */
export interface SubRunPlace {
  /** Of the sub-run; a UUID. */
  readonly runId: string;
  /** The call of the run around it. */
  readonly toolCallId: string;
  /** With which it was begun. */
  readonly args: JsonObject;
}

/** An entry of a sub-run, as it was written. */
export interface SubRunEntry extends Pick<SubRunPlace, 'runId' | 'toolCallId'> {
  /** With the entry with which it begins. */
  readonly args?: JsonObject;
  readonly entry: RunEntry;
}

const PREFIX = 'sub:';

/** `model:3` of a sub-run as an entry of the run around it: `sub:<its run id>/model:3`. */
export function toSubRunEntry({ runId, toolCallId, args }: SubRunPlace, { key, value }: RunEntry): RunEntry {
  return { key: `${PREFIX}${runId}/${key}`, value: { toolCallId, value, ...(key === 'begin' && { args }) } };
}

/** Undefined for an entry that is the run's own. */
export function fromSubRunEntry({ key, value: written }: RunEntry): SubRunEntry | undefined {
  if (!key.startsWith(PREFIX)) return undefined;
  const slash = key.indexOf('/');
  const { value, ...about } = written as unknown as Pick<SubRunEntry, 'toolCallId' | 'args'> & Pick<RunEntry, 'value'>;
  return { ...about, runId: key.slice(PREFIX.length, slash), entry: { key: key.slice(slash + 1), value } };
}
