// @ts-expect-error class-transformer ships no types beside this file; it is the instance its decorators write to.
import { defaultMetadataStorage } from 'class-transformer/cjs/storage.js';
import type { MetadataStorage } from 'class-transformer/types/MetadataStorage.js';

/** The metadata of class-transformer's decorators. */
export const transformMetadata = defaultMetadataStorage as MetadataStorage;
