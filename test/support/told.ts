/**
 * Assertions in loops of thousands: the text that tells of a failure costs more than what is tested, and is made where one fails.
 */

/** Runs an assertion. @throws an Error with `message()` for its message where it fails, and the failure as its cause */
export function withMessage(check: () => void, message: () => string): void {
  try {
    check();
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${message()}`, { cause: error });
  }
}
