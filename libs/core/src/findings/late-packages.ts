import { createRequire } from 'node:module';
import type * as AjvModule from 'ajv';
import type * as AjvFormats from 'ajv-formats';
import type * as ClassTransformer from 'class-transformer';
import type * as ClassValidator from 'class-validator';
import type * as Re2 from 're2js';

/**
 * Packages that are loaded where they are first needed, as long to import as the rest of this one.
 * What each input asks for is kept: `require` would look for its file anew, for 2.5 µs.
 */
export const require = createRequire(import.meta.url);

/** Loads Ajv with the first schema. */
export function ajvModule(): typeof AjvModule {
  return require('ajv') as typeof AjvModule;
}

export function ajvFormats(): typeof AjvFormats.default {
  return require('ajv-formats') as typeof AjvFormats.default;
}

/** Loads RE2 with the first pattern. */
export function re2(): typeof Re2 {
  return require('re2js') as typeof Re2;
}

/**
 * The packages whose decorators an application may put on its classes, and need not have: optional
 * peers, as they are Nest's.
 */
type DecoratorPackage = 'class-validator' | 'class-transformer';

/**
 * Returns the finding about something that needs a package; undefined where the application has the
 * package.
 */
export function missingPackage(
  name: DecoratorPackage,
  what: string,
): { readonly problem: string; readonly remedy: string } | undefined {
  if (isInstalled(name)) return undefined;
  return {
    problem: `${what} needs the package ${name}, which is not installed`,
    remedy: `Run: npm install ${name}`,
  };
}

let [validator, transformer]: [
  typeof ClassValidator | undefined,
  typeof ClassTransformer | undefined,
] = [undefined, undefined];
/**
 * Loads class-validator with the first class that needs it. @throws Error where the application has
 * not got it
 */
export function classValidator(): typeof ClassValidator {
  return (validator ??= installed('class-validator') as typeof ClassValidator);
}

/**
 * Loads class-transformer with the first class that needs it. @throws Error where the application
 * has not got it
 */
export function classTransformer(): typeof ClassTransformer {
  return (transformer ??= installed('class-transformer') as typeof ClassTransformer);
}

function installed(name: DecoratorPackage): unknown {
  const missing = missingPackage(name, 'Toolloop');
  if (missing) throw new Error(`${missing.problem}. ${missing.remedy}`);
  return require(name);
}

const answers = new Map<DecoratorPackage, boolean>();

export function isInstalled(name: DecoratorPackage): boolean {
  if (!answers.has(name)) answers.set(name, isFound(name));
  return answers.get(name) === true;
}

function isFound(name: DecoratorPackage): boolean {
  try {
    return require.resolve(name) !== '';
  } catch {
    return false;
  }
}
