// @ts-expect-error class-transformer ships no types beside this file; it is the instance its decorators write to.
import { defaultMetadataStorage } from 'class-transformer/cjs/storage.js';
import type * as AjvModule from 'ajv';
import type * as AjvFormats from 'ajv-formats';
import type * as ClassTransformer from 'class-transformer';
import type { MetadataStorage } from 'class-transformer/types/MetadataStorage.js';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/** Loads class-transformer with the first class that needs it. */
export function classTransformer(): typeof ClassTransformer {
  return require('class-transformer') as typeof ClassTransformer;
}

/** Loads Ajv with the first schema. */
export function ajvModule(): typeof AjvModule {
  return require('ajv') as typeof AjvModule;
}

export function ajvFormats(): typeof AjvFormats.default {
  return require('ajv-formats') as typeof AjvFormats.default;
}

/** The directions of class-transformer. */
export const PLAIN_TO_CLASS: ClassTransformer.TransformationType.PLAIN_TO_CLASS = 0;
export const CLASS_TO_PLAIN: ClassTransformer.TransformationType.CLASS_TO_PLAIN = 1;

/** The metadata of class-transformer's decorators. */
export const transformMetadata = defaultMetadataStorage as MetadataStorage;
