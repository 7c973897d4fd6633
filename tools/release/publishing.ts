import { packStaged, type StagedPackage } from './packages.js';

/**
 * The commands that publish the packages, one a tarball. With a provenance each says which commit
 * and which workflow it was made from, which npm grants to a workflow with the right
 * `id-token: write` alone.
 *
 * @throws Error where the address of the repository is not set, and where a version is `0.0.0`
 */
export function publishCommands(
  staged: readonly StagedPackage[],
  work: string,
  repository: string,
): readonly (readonly string[])[] {
  if (repository === '')
    throw new Error(
      'Nothing is published: set REPOSITORY in tools/release/project.ts, from which "repository", "homepage" and "bugs" of the packages follow.',
    );
  const unversioned = staged
    .filter(({ manifest }) => manifest.version === '0.0.0')
    .map(({ manifest }) => manifest.name);
  if (unversioned.length > 0)
    throw new Error(
      `Nothing is published: ${unversioned.join(', ')} are 0.0.0. Run "npm run release:version" and commit the versions.`,
    );
  return [...packStaged(staged, work).values()].map((tarball) => [
    'publish',
    tarball,
    '--access',
    'public',
    '--provenance',
  ]);
}
