import { describe, expect, it } from '@jest/globals';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { programArguments } from '../../../../test/program.js';

const run = promisify(execFile);

/** Runs an application in a process that finds none of the optional packages. */
async function printedBy(
  which: 'plain' | 'input' | 'output' | 'field' | 'counter',
): Promise<string> {
  const { stdout } = await run(process.execPath, [
    ...programArguments('libs/core/test/fixtures/undecorated.process.ts'),
    which,
  ]);
  return stdout.trim();
}

describe('an application without the optional packages', () => {
  it('starts and runs tools with named parameters, patterns and schemas', async () => {
    expect(await printedBy('plain')).toBe(
      ['succeeded {"name":"jane"}', 'succeeded {"word":"aloud"}', 'failed "invalid_args"'].join(
        '\n',
      ),
    );
  });

  it('does not start with a DTO, and is told which package to install', async () => {
    const said = await printedBy('input');
    expect(said).toContain(
      'The schema of Search needs the package class-validator, which is not installed',
    );
    expect(said).toContain('Run: npm install class-validator');
  });

  it('does not start with a class as output, and is told which package to install', async () => {
    const said = await printedBy('output');
    expect(said).toContain(
      'The @Expose() of Customer needs the package class-transformer, which is not installed',
    );
    expect(said).toContain('Run: npm install class-transformer');
  });

  it('is told which package to install where it decorates a field', async () => {
    expect(await printedBy('field')).toBe(
      'Toolloop needs the package class-validator, which is not installed. Run: npm install class-validator',
    );
  });

  it('is told which package to install where it makes a counter of tokens', async () => {
    expect(await printedBy('counter')).toBe(
      'OpenAiTokenCounter needs the package gpt-tokenizer, which is not installed. Run: npm install gpt-tokenizer',
    );
  });
});

describe('an application with the optional packages', () => {
  it('lets Node look for the file of each to know that it is there and to load it, not for every rule of a property and every input', async () => {
    const { stdout } = await run(
      process.execPath,
      programArguments('libs/core/test/fixtures/required-packages.process.ts'),
    );
    expect(stdout).toBe('class-validator class-validator class-transformer class-transformer');
  });
});
