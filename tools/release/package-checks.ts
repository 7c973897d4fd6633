import { spawnSync } from 'node:child_process';
import { packStaged, type StagedPackage } from './packages.js';

/**
 * Lets publint and "Are the types wrong?" look at every package as it is published. Two ways to
 * resolve a package are left out, `node10` and `node16` from CommonJS: see
 * docs/decisions/toolchain.md.
 *
 * @returns what they found, a text for each package and tool
 */
export function lintPackages(staged: readonly StagedPackage[], work: string): readonly string[] {
  const tarballs = packStaged(staged, work);
  return staged.flatMap(({ manifest: { name }, folder }) => {
    const tarball = tarballs.get(name) ?? '';
    return [
      ...complaints(name, 'publint', [folder, '--strict']),
      ...complaints(name, 'attw', [tarball, '--profile', 'esm-only', '--quiet']),
    ];
  });
}

function complaints(name: string, tool: string, args: readonly string[]): readonly string[] {
  const { status, stdout, stderr } = spawnSync(`tools/release/node_modules/.bin/${tool}`, args, {
    encoding: 'utf8',
  });
  return status === 0 ? [] : [`${tool} of ${name}:\n${stdout}${stderr}`];
}
