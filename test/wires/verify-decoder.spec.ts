import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';

/**
 * Streams of real providers, and what checks a decoder on them. They lie beside the project and are
 * no part of it.
 */
const VERIFIER = '../shared/wire-fixtures/verify-decoder.mjs';
const MODES = 'whole,bytes,random,utf8split,crlf,cr,comments,bom,nospace,dupid';

const isThere = existsSync(VERIFIER);
const describeIfThere = isThere ? describe : describe.skip;

describeIfThere(
  `the verifier of recorded streams${isThere ? '' : ' (left out: ../shared/wire-fixtures is not there)'}`,
  () => {
    it('finds nothing wrong with what our decoders make of them', () => {
      const loader = [
        '--conditions=@toolloop/source',
        '--import',
        '@swc-node/register/esm-register',
      ];
      const args = [...loader, VERIFIER, 'test/wires/decoder.ts', '--modes', MODES];
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
      expect({ status, stderr: stderr.slice(0, 2_000), stdout }).toMatchObject({
        status: 0,
        stdout: expect.stringMatching(/^[1-9]\d{2,} passed, 0 failed$/m),
      });
    });
  },
);
