import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { filesOf } from './imports.js';

const WIDTH = 100;
const FOLDERS = ['libs', 'src', 'test', 'examples'];
const COMMENT = /^\s*(?:\/\/|\/?\*)/;
/** Remarks to tools keep their line, and an address cannot be parted. */
const UNBROKEN = /(?:oxlint|eslint|prettier)-|@ts-|https?:\/\/\S{40}/;

/** The lines of a file that hold a comment wider than the page; code in an example may be wider. */
function wideComments(file: string): readonly string[] {
  let isExample = false;
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => {
      if (/^\s*\*?\s*```/.test(line)) isExample = !isExample;
      return !isExample && line.length > WIDTH && COMMENT.test(line) && !UNBROKEN.test(line);
    })
    .map((line) => `${file}: ${line.trim()}`);
}

describe('comments', () => {
  it('are at most as wide as the code', () => {
    const files = FOLDERS.flatMap(filesOf).filter((file) =>
      /^(?!.*\/(?:dist|node_modules)\/).*\.tsx?$/.test(file),
    );
    expect(files.length).toBeGreaterThan(500);
    expect(files.flatMap(wideComments)).toEqual([]);
  });
});
