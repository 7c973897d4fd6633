import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { readingFrom } from './drivers/from-message.js';
import type { Section, Suite } from './report.js';

const MEGABYTES = 100;
const PAUSE_MS = 10_000;
const READERS = ['floor', 'chat', 'responses', 'messages'] as const;

/** The memory for reading a long answer, in MB. */
export interface Reading {
  readonly read: number;
  /** The growth of the process while its reader paused. */
  readonly inPause: number;
  /** The live memory after a full collection, when half was read, and at the end. */
  readonly atHalf: number;
  readonly atEnd: number;
  /** The largest growth of the process, garbage that is not yet collected included. */
  readonly peak: number;
}

/** Shows that a reader that pauses stops the provider. */
export const pressureSuite: Suite = {
  name: 'pressure',
  async run(): Promise<Section> {
    const rows = [];
    for (const reader of READERS) rows.push({ reader, ...(await readingOf(reader)) });
    const models = rows.filter(({ reader }) => reader !== 'floor');
    return {
      title: 'an answer that is longer than the memory it may take',
      method: [
        `${MEGABYTES} MB from a process that writes as fast as it is read, read by a process of its own that pauses ${PAUSE_MS / 1000} s after a tenth. Held: heap and what`,
        'hangs on it, after a full collection. The floor reads the bytes of the same socket and does nothing with them: what it grows by is the runtime and its garbage.',
      ],
      tables: [
        {
          title: 'memory',
          columns: [
            { key: 'reader', title: 'reader' },
            { key: 'read', title: 'MB read', digits: 0 },
            { key: 'inPause', title: 'in the pause MB', digits: 1 },
            { key: 'atHalf', title: 'held at half MB', digits: 1 },
            { key: 'atEnd', title: 'held at the end MB', digits: 1 },
            { key: 'peak', title: 'peak of the process MB', digits: 1 },
          ],
          rows,
        },
      ],
      targets: [
        {
          what: 'growth in the pause, at worst',
          value: Math.max(...models.map(({ inPause }) => inPause)),
          unit: 'MB',
          atMost: 20,
        },
        {
          what: 'held at half, at worst',
          value: Math.max(...models.map(({ atHalf }) => atHalf)),
          unit: 'MB',
          atMost: 20,
        },
      ],
      skipped: [],
    };
  },
};

async function readingOf(reader: string): Promise<Reading> {
  const provider = fork(fileURLToPath(new URL('pouring.process.js', import.meta.url)), {
    execArgv: [],
  });
  const port = await new Promise<unknown>((resolve) => provider.once('message', resolve));
  const args = [reader, `http://127.0.0.1:${String(port)}`, String(MEGABYTES), String(PAUSE_MS)];
  const child = fork(fileURLToPath(new URL('pausing.process.js', import.meta.url)), args, {
    execArgv: ['--expose-gc'],
  });
  const message = await new Promise<unknown>((resolve, reject) => {
    child.once('message', resolve);
    child.once('exit', (code) =>
      reject(new Error(`${reader} ended with ${code} before it had read everything.`)),
    );
  });
  const exited = once(provider, 'exit');
  provider.disconnect();
  await exited;
  return readingFrom(message);
}
