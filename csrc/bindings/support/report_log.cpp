#include "bindings/support/report_log.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/report.hpp"
#include "bindings/support/gil.hpp"

namespace shmtensor::python {
namespace {

/// A report that waits for the main thread; its text follows.
struct Report {
  Report* next;
  Severity severity;

  [[nodiscard]] char* text() noexcept { return reinterpret_cast<char*>(this + 1); }
};

constexpr int kMost =
    1000;  // reports that wait; if the main thread does not run, others are written

std::atomic<Report*> g_last{nullptr};  // the list of reports, the last one first
std::atomic<int> g_waiting{0};
std::atomic<bool> g_scheduled{false};
std::atomic<pid_t> g_process{0};

// Return true if the reports are this process's, and not those of its parent.
bool is_own() noexcept { return ::getpid() == g_process.load(); }

// Returns the reports in their order, and removes them.
Report* take_all() noexcept {
  Report* first = nullptr;
  for (Report* report = g_last.exchange(nullptr); report != nullptr;) {
    Report* const next = report->next;
    report->next = first;
    first = report;
    report = next;
  }
  return first;
}

// Calls a function with each report, and frees it.
template <typename Function>
void consume(Report* report, Function&& function) {
  while (report != nullptr) {
    Report* const next = report->next;
    function(*report);
    std::free(report);
    g_waiting.fetch_sub(1);
    report = next;
  }
}

void write(Report& report) noexcept { write_report(report.severity, report.text()); }
void write_all() noexcept { consume(take_all(), write); }

// For reports after the last instruction of Python; those of a parent are not this process's.
void write_rest() noexcept {
  if (is_own()) write_all();
}

// Return true if Python's logging has the report. The package has imported the module; an import
// would use the builtins of the function that runs, and the functions of a namedtuple have none.
bool pass_to_logging(Report& report) {
  PyObject* const name = PyUnicode_FromString("shmtensor._log");
  PyObject* const module = name == nullptr ? nullptr : PyImport_GetModule(name);
  Py_XDECREF(name);
  PyObject* const done =
      module == nullptr
          ? nullptr
          : PyObject_CallMethod(
                module, "log_report", "ON",
                report.severity == Severity::failure ? Py_True : Py_False,
                PyUnicode_DecodeUTF8(report.text(),
                                     static_cast<Py_ssize_t>(std::strlen(report.text())),
                                     "backslashreplace"));
  const bool logged = done == Py_True;
  Py_XDECREF(done);
  Py_XDECREF(module);
  return logged;
}

// Runs in the main thread, between two instructions of Python. An exception such as
// KeyboardInterrupt goes to the program; an error of its logging does not.
int deliver(void*) noexcept {
  if (!is_own()) return 0;  // in a child whose handlers are running
  g_scheduled.store(false);
  bool interrupted = false;
  consume(take_all(), [&](Report& report) {
    if (!interrupted && pass_to_logging(report)) return;
    write(report);
    if (interrupted || PyErr_Occurred() == nullptr) return;
    interrupted = PyErr_ExceptionMatches(PyExc_Exception) == 0;
    if (!interrupted) PyErr_WriteUnraisable(nullptr);
  });
  return interrupted ? -1 : 0;
}

// A report may come from any thread, with any lock held, with or without the GIL, and logging runs
// the program's code; so the main thread logs it later. A fork handler of a child has to write: up
// to Python's own handler, Python's locks may be those of threads that do not exist.
void pass_on(Severity severity, const char* text) noexcept {
  if (!is_own() || is_finalizing() || g_waiting.load() >= kMost) {
    return write_report(severity, text);
  }
  const std::size_t size = std::strlen(text) + 1;
  void* const memory = std::malloc(sizeof(Report) + size);
  if (memory == nullptr) return write_report(severity, text);
  g_waiting.fetch_add(1);
  auto* const report = new (memory) Report{g_last.load(), severity};
  std::memcpy(report->text(), text, size);
  while (!g_last.compare_exchange_weak(report->next, report)) {
  }
  if (g_scheduled.exchange(true) || Py_AddPendingCall(deliver, nullptr) == 0) return;
  g_scheduled.store(false);
  write_all();
}

// The parent logs the reports that it had at the fork.
void begin_child() noexcept {
  consume(take_all(), [](Report&) {});
  g_waiting.store(0);
  g_scheduled.store(false);
  g_process.store(::getpid());
}

}  // namespace

void add_report_log(py::module_&) {
  g_process.store(::getpid());
  static_cast<void>(std::atexit(write_rest));
  py::module_::import("os").attr("register_at_fork")(py::arg("after_in_child") =
                                                         py::cpp_function(&begin_child));
  set_report_hook(&pass_on);
}

}  // namespace shmtensor::python
