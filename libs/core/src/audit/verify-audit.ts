#!/usr/bin/env node
import { createReadStream, realpathSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { SignedAuditHead } from '../contracts/audit.js';
import { isSignedHead, parsedJson, readAuditLines } from './audit-entry.js';
import { type AuditKey, keyFindings, listedKeys } from './audit-options.js';
import { type AuditVerification, verifyAudit } from './audit-verification.js';

/** Verifies the export of one tenant's chain, reading the file as a stream. */
export async function verifyCommand(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<CommandOutcome> {
  try {
    const { file, keyVariables, headFile, tenant } = readArguments(args);
    const keys = readKeys(keyVariables, environment);
    const head = headFile === undefined ? undefined : await readHead(headFile);
    const lines = readAuditLines(createReadStream(file));
    return toOutcome(await verifyAudit(lines, { keys, ...(head && { head }), ...(tenant !== undefined && { tenant }) }), head);
  } catch (error) {
    return { exitCode: 2, message: `The audit could not be checked. ${messageOf(error)}` };
  }
}

/** The message and the exit code of the command: 0 the chain is valid, 1 it is not, 2 it could not be checked. */
export interface CommandOutcome {
  readonly exitCode: 0 | 1 | 2;
  readonly message: string;
}

const USAGE = [
  'Usage: audit:verify -- <file.jsonl> --key-env <VARIABLE> [--head <head.json>] [--tenant <tenant>]',
  '  --key-env   the environment variable that holds the key; after a rotation repeat it, as <key id>=<VARIABLE>',
  '  --head      a head exported earlier: without it, entries cut from the end do not show',
  '  --tenant    the tenant of the chain',
].join('\n');

function readArguments(args: readonly string[]) {
  const text = { type: 'string' } as const;
  const options = { 'key-env': { ...text, multiple: true }, head: text, tenant: text } as const;
  const { values, positionals } = parsed(() => parseArgs({ args: [...args], options, allowPositionals: true }));
  const [file, ...more] = positionals;
  const keyVariables = values['key-env'];
  if (file === undefined || more.length > 0 || !keyVariables) throw new Error(`One file and a key are needed.\n${USAGE}`);
  return { file, keyVariables, headFile: values.head, tenant: values.tenant };
}

function parsed<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new Error(`${messageOf(error)}\n${USAGE}`, { cause: error });
  }
}

function readKeys(variables: readonly string[], environment: NodeJS.ProcessEnv): readonly AuditKey[] {
  const keys = variables.flatMap((named) => {
    const [, id, variable = named] = /^(.+)=([^=]+)$/.exec(named) ?? [];
    const secret = environment[variable];
    if (!secret) throw new Error(`The environment variable ${variable} is not set.`);
    return listedKeys(id === undefined ? secret : [{ id, secret }]);
  });
  const [finding] = keyFindings(keys, '--key-env');
  if (finding) throw new Error(`${finding.problem} ${finding.remedy}`);
  return keys;
}

async function readHead(file: string): Promise<SignedAuditHead> {
  const head = parsedJson(await readFile(file, 'utf8'));
  if (isSignedHead(head)) return head;
  throw new Error(`${file} is not an exported head of an audit.`);
}

function toOutcome(verification: AuditVerification, head: SignedAuditHead | undefined): CommandOutcome {
  if (!verification.valid) return { exitCode: 1, message: `The audit is not valid. ${verification.message}` };
  const { entries, tenant } = verification;
  if (entries === 0 && !head) return { exitCode: 2, message: 'There is nothing to check: the file has no entries and no head was given.' };
  const end = head
    ? `None of the ${head.sequence} entries of ${head.at} was cut.`
    : 'No head was given, so entries cut from the end would not show.';
  return {
    exitCode: 0,
    message: `The audit of tenant ${JSON.stringify(tenant)} is valid: ${entries} entries, unchanged and in order. ${end}`,
  };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The command runs where this file is the program, and not where a test imports it. A package's `bin` is a link to it. */
if (realpathSync(process.argv[1] ?? '.') === fileURLToPath(import.meta.url)) {
  const { exitCode, message } = await verifyCommand(process.argv.slice(2), process.env);
  (exitCode === 0 ? process.stdout : process.stderr).write(`${message}\n`);
  process.exitCode = exitCode;
}
