import { expect, it } from '@jest/globals';
import { execFile } from 'node:child_process';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { programArguments } from '../program.js';
import { countingProvider } from './counting-provider.js';

/**
 * A tenth more than today, for the steps of a run of 45. A change that makes a step dearer has to
 * say why.
 */
const MOST_BYTES = 245_000;
const NO_COLLECTIONS = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256'];

/** Two for each signature: of the arguments, twice, of the result and of both entries. */
const HASHES = 10;

it(`takes at most ${MOST_BYTES / 1000} KB of the heap and ${HASHES} hashes for a step of a run, from its request over a wire to the result of a read and its entries in the audit`, async () => {
  const server = await countingProvider();
  const baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const program = [
    ...NO_COLLECTIONS,
    ...programArguments('test/wires/counting.process.ts'),
    baseURL,
  ];
  const { stdout } = await promisify(execFile)(process.execPath, program);
  server.closeAllConnections();
  server.close();
  const { bytes, hashes } = JSON.parse(stdout) as {
    readonly bytes: readonly number[];
    readonly hashes: number;
  };
  expect(hashes).toBe(HASHES);
  expect(Math.min(...bytes)).toBeLessThan(MOST_BYTES);
  expect(Math.min(...bytes)).toBeGreaterThan(MOST_BYTES / 2);
});
