import type * as AjvModule from 'ajv';
import type * as AjvFormats from 'ajv-formats';
import type * as ClassTransformer from 'class-transformer';
import type { ExposeMetadata, TypeMetadata } from 'class-transformer/types/interfaces/index.js';
import type { MetadataStorage } from 'class-transformer/types/MetadataStorage.js';
import type * as ClassValidator from 'class-validator';
import { createRequire } from 'node:module';
import type * as Re2 from 're2js';

/**
 * Packages that are loaded where they are first needed, as long to import as the rest of this one.
 * What each input asks for is kept: `require` would look for its file anew, for 2.5 µs.
 */
const require = createRequire(import.meta.url);

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

/** The directions of class-transformer. */
export const PLAIN_TO_CLASS: ClassTransformer.TransformationType.PLAIN_TO_CLASS = 0;
export const CLASS_TO_PLAIN: ClassTransformer.TransformationType.CLASS_TO_PLAIN = 1;

/**
 * The questions that core asks the storage of class-transformer, which finds nothing of most
 * properties.
 */
interface TransformMetadata extends Pick<
  MetadataStorage,
  | 'findTransformMetadatas'
  | 'getStrategy'
  | 'getExposedMetadatas'
  | 'getExposedProperties'
  | 'getExcludedProperties'
> {
  findExposeMetadata(
    ...property: Parameters<MetadataStorage['findExposeMetadata']>
  ): ExposeMetadata | undefined;
  findTypeMetadata(
    ...property: Parameters<MetadataStorage['findTypeMetadata']>
  ): TypeMetadata | undefined;
}

let metadata: TransformMetadata | undefined;

/**
 * Returns the metadata of class-transformer's decorators: none where it is not installed, since no
 * class can have one.
 */
export function transformMetadata(): TransformMetadata {
  return (metadata ??= isInstalled('class-transformer') ? storageOfDecorators() : NO_METADATA);
}

/**
 * class-transformer ships no types beside this file; it is the instance that its decorators write
 * to.
 */
function storageOfDecorators(): MetadataStorage {
  return (
    require('class-transformer/cjs/storage.js') as {
      readonly defaultMetadataStorage: MetadataStorage;
    }
  ).defaultMetadataStorage;
}

const NO_METADATA: TransformMetadata = {
  findTransformMetadatas: () => [],
  findExposeMetadata: () => undefined,
  findTypeMetadata: () => undefined,
  getStrategy: () => 'none',
  getExposedMetadatas: () => [],
  getExposedProperties: () => [],
  getExcludedProperties: () => [],
};

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
