// @ts-expect-error class-transformer ships no types beside this file; it is the instance its decorators write to.
import { defaultMetadataStorage } from 'class-transformer/cjs/storage.js';
import type { MetadataStorage } from 'class-transformer/types/MetadataStorage.js';

/** Everything class-transformer's decorators recorded. */
export const transformMetadata = defaultMetadataStorage as MetadataStorage;
