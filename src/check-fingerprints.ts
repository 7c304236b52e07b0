/**
 * Who a finding is: the same from run to run, also when its line has moved or its wording has changed.
 */
import { createHash } from 'node:crypto';
import type { Finding } from './findings.ts';

/**
 * A fingerprint for each finding: 16 hexadecimal digits of its rule and subject, a colon, and its number among those of the
 * same rule and subject. Neither place nor message counts, so a finding that was dismissed once stays so.
 */
export function fingerprints(findings: readonly Finding[]): readonly string[] {
  const seen = new Map<string, number>();
  return findings.map(({ rule, subject }) => {
    const digest = createHash('sha256').update(`${rule}\0${subject}`).digest('hex').slice(0, 16);
    const nth = (seen.get(digest) ?? 0) + 1;
    seen.set(digest, nth);
    return `${digest}:${nth}`;
  });
}
