# Installation rules.
include(GNUInstallDirs)
