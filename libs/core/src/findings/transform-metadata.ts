import type * as ClassTransformer from 'class-transformer';
import type { MetadataStorage } from 'class-transformer/types/MetadataStorage.js';
import type { ExposeMetadata, TypeMetadata } from 'class-transformer/types/interfaces/index.js';
import { isInstalled, require } from './late-packages.js';

/**
 * Returns the metadata of class-transformer's decorators: none where it is not installed, since no
 * class can have one.
 */
export function transformMetadata(): TransformMetadata {
  return (metadata ??= isInstalled('class-transformer') ? storageOfDecorators() : NO_METADATA);
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
